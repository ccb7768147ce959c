"""Ways in which code can keep a tensor over a scope.

For each there is a function `keep_X`, and `get_X`, which returns the tensor. ``test_torch_ways.py`` copies
this file twice: into a folder of installed libraries, and as the user's code.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import contextvars
import ctypes
import functools
import itertools
import operator
import queue
import threading
import types
import weakref
from collections import ChainMap, Counter, OrderedDict, UserDict, UserList, defaultdict, deque, namedtuple
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, ClassVar

import numpy as np
import torch

# --- Globals.

NOTHING: Any = None
NUMBER: Any = 0.0
TEXT: Any = "none"
LIST: list[Any] = []
LIST_OF_NUMBERS: list[Any] = [1, 2]
LIST_OF_LISTS: list[list[Any]] = [[1], []]
TUPLE: tuple[Any, ...] = (1,)
DICT: dict[str, Any] = {}
DICT_OF_TEXT: dict[str, Any] = {"name": "text"}
DICT_BY_TENSOR: dict[Any, int] = {}
NESTED: dict[str, Any] = {"a": [{"b": ("c", [])}]}
ORDERED: OrderedDict[str, Any] = OrderedDict()
DEFAULTS: defaultdict[str, list[Any]] = defaultdict(list)
COUNTER: Counter[str] = Counter()
DEQUE: deque[Any] = deque(maxlen=3)
SET: set[Any] = set()
FROZEN: frozenset[Any] = frozenset()
CHAIN: ChainMap[str, Any] = ChainMap({}, {})
USER_DICT: UserDict[str, Any] = UserDict()
USER_LIST: UserList[Any] = UserList()
NAMESPACE = types.SimpleNamespace(x=None)
PROXIED: dict[str, Any] = {}
PROXY = types.MappingProxyType(PROXIED)
MADE_MODULE = types.ModuleType("made")
QUEUE: queue.Queue[Any] = queue.Queue()
SIMPLE_QUEUE: queue.SimpleQueue[Any] = queue.SimpleQueue()
HEAP: list[Any] = []
Pair = namedtuple("Pair", "first second")
PAIR = Pair(1, 2)
FUTURE: list[concurrent.futures.Future[Any]] = []
ARRAY = np.empty(2, dtype=object)
LOCAL = threading.local()
VARIABLE: contextvars.ContextVar[Any] = contextvars.ContextVar("VARIABLE")
POINTERS: list[Any] = []


class Key:
    pass


KEY = Key()
WEAK_KEYS: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()


def keep_in_a_global_that_was_none(x: Any) -> None:
    global NOTHING
    NOTHING = x


def get_in_a_global_that_was_none() -> Any:
    return NOTHING


def keep_in_a_global_that_was_a_number(x: Any) -> None:
    global NUMBER
    NUMBER = x


def get_in_a_global_that_was_a_number() -> Any:
    return NUMBER


def keep_in_a_global_that_was_a_text(x: Any) -> None:
    global TEXT
    TEXT = x


def get_in_a_global_that_was_a_text() -> Any:
    return TEXT


def keep_in_a_global_made_later(x: Any) -> None:
    globals()["MADE_LATER"] = x


def get_in_a_global_made_later() -> Any:
    return globals()["MADE_LATER"]


def keep_in_a_list_in_a_global_made_later(x: Any) -> None:
    globals()["LIST_MADE_LATER"] = ["first", x]


def get_in_a_list_in_a_global_made_later() -> Any:
    return globals()["LIST_MADE_LATER"][1]


def keep_in_a_list(x: Any) -> None:
    LIST.append(x)


def get_in_a_list() -> Any:
    return LIST[-1]


def keep_in_a_list_of_numbers(x: Any) -> None:
    LIST_OF_NUMBERS.append(x)


def get_in_a_list_of_numbers() -> Any:
    return LIST_OF_NUMBERS[-1]


def keep_in_a_list_of_lists(x: Any) -> None:
    LIST_OF_LISTS[1].append(x)


def get_in_a_list_of_lists() -> Any:
    return LIST_OF_LISTS[1][-1]


def keep_in_a_new_tuple(x: Any) -> None:
    global TUPLE
    TUPLE = (1, x)


def get_in_a_new_tuple() -> Any:
    return TUPLE[1]


def keep_in_a_dict(x: Any) -> None:
    DICT["x"] = x


def get_in_a_dict() -> Any:
    return DICT["x"]


def keep_in_a_dict_of_texts(x: Any) -> None:
    DICT_OF_TEXT["x"] = x


def get_in_a_dict_of_texts() -> Any:
    return DICT_OF_TEXT["x"]


def keep_as_a_key_of_a_dict(x: Any) -> None:
    DICT_BY_TENSOR[x] = 1


def get_as_a_key_of_a_dict() -> Any:
    return list(DICT_BY_TENSOR)[-1]


def keep_in_nested_containers(x: Any) -> None:
    NESTED["a"][0]["b"][1].append(x)


def get_in_nested_containers() -> Any:
    return NESTED["a"][0]["b"][1][-1]


def keep_in_an_ordered_dict(x: Any) -> None:
    ORDERED["x"] = x


def get_in_an_ordered_dict() -> Any:
    return ORDERED["x"]


def keep_in_a_defaultdict(x: Any) -> None:
    DEFAULTS["x"].append(x)


def get_in_a_defaultdict() -> Any:
    return DEFAULTS["x"][-1]


def keep_in_a_counter(x: Any) -> None:
    COUNTER["x"] = x


def get_in_a_counter() -> Any:
    return COUNTER["x"]


def keep_in_a_deque(x: Any) -> None:
    DEQUE.append(x)


def get_in_a_deque() -> Any:
    return DEQUE[-1]


def keep_in_a_set(x: Any) -> None:
    SET.clear()
    SET.add(x)


def get_in_a_set() -> Any:
    return next(iter(SET))


def keep_in_a_new_frozenset(x: Any) -> None:
    global FROZEN
    FROZEN = frozenset([x])


def get_in_a_new_frozenset() -> Any:
    return next(iter(FROZEN))


def keep_in_a_chain_map(x: Any) -> None:
    CHAIN["x"] = x


def get_in_a_chain_map() -> Any:
    return CHAIN["x"]


def keep_in_a_user_dict(x: Any) -> None:
    USER_DICT["x"] = x


def get_in_a_user_dict() -> Any:
    return USER_DICT["x"]


def keep_in_a_user_list(x: Any) -> None:
    USER_LIST.append(x)


def get_in_a_user_list() -> Any:
    return USER_LIST[-1]


def keep_in_a_weak_key_dictionary(x: Any) -> None:
    WEAK_KEYS[KEY] = x


def get_in_a_weak_key_dictionary() -> Any:
    return WEAK_KEYS[KEY]


def keep_in_a_namespace(x: Any) -> None:
    NAMESPACE.x = x


def get_in_a_namespace() -> Any:
    return NAMESPACE.x


def keep_behind_a_mapping_proxy(x: Any) -> None:
    PROXIED["x"] = x


def get_behind_a_mapping_proxy() -> Any:
    return PROXY["x"]


def keep_in_a_module_made_in_code(x: Any) -> None:
    MADE_MODULE.x = x  # type: ignore[attr-defined]


def get_in_a_module_made_in_code() -> Any:
    return MADE_MODULE.x


def keep_in_a_queue(x: Any) -> None:
    QUEUE.put(x)


def get_in_a_queue() -> Any:
    return QUEUE.get()


def keep_in_a_simple_queue(x: Any) -> None:
    SIMPLE_QUEUE.put(x)


def get_in_a_simple_queue() -> Any:
    return SIMPLE_QUEUE.get()


def keep_in_a_heap_of_tuples(x: Any) -> None:
    HEAP.append((len(HEAP), x))


def get_in_a_heap_of_tuples() -> Any:
    return HEAP[-1][1]


def keep_in_a_named_tuple(x: Any) -> None:
    global PAIR
    PAIR = Pair(1, x)


def get_in_a_named_tuple() -> Any:
    return PAIR.second


def keep_in_a_future(x: Any) -> None:
    FUTURE.append(concurrent.futures.Future())
    FUTURE[-1].set_result(x)


def get_in_a_future() -> Any:
    return FUTURE[-1].result()


def keep_in_an_array_of_objects(x: Any) -> None:
    ARRAY[0] = x


def get_in_an_array_of_objects() -> Any:
    return ARRAY[0]


def keep_in_a_local_of_the_thread(x: Any) -> None:
    LOCAL.x = x


def get_in_a_local_of_the_thread() -> Any:
    return LOCAL.x


def keep_in_a_context_variable(x: Any) -> None:
    VARIABLE.set(x)


def get_in_a_context_variable() -> Any:
    return VARIABLE.get()


def keep_behind_a_pointer(x: Any) -> None:
    POINTERS.append(ctypes.py_object(x))


def get_behind_a_pointer() -> Any:
    return POINTERS[-1].value


# --- Classes and functions.


class Registry:
    last: Any = None
    by_name: ClassVar[dict[str, Any]] = {}

    class Inner:
        values: ClassVar[list[Any]] = []


class Meta(type):
    registered: ClassVar[list[Any]] = []


class WithMeta(metaclass=Meta):
    pass


class Color(Enum):
    RED = 1


def keep_in_a_class_attribute(x: Any) -> None:
    Registry.last = x


def get_in_a_class_attribute() -> Any:
    return Registry.last


def keep_in_a_dict_on_a_class(x: Any) -> None:
    Registry.by_name["x"] = x


def get_in_a_dict_on_a_class() -> Any:
    return Registry.by_name["x"]


def keep_in_a_list_on_a_nested_class(x: Any) -> None:
    Registry.Inner.values.append(x)


def get_in_a_list_on_a_nested_class() -> Any:
    return Registry.Inner.values[-1]


def keep_in_a_metaclass(x: Any) -> None:
    WithMeta.registered.append(x)


def get_in_a_metaclass() -> Any:
    return Meta.registered[-1]


def keep_in_a_class_made_later(x: Any) -> None:
    globals()["LaterClass"] = type("LaterClass", (), {"x": x, "__module__": __name__})


def get_in_a_class_made_later() -> Any:
    return globals()["LaterClass"].x


def keep_in_an_attribute_of_an_enum(x: Any) -> None:
    Color.RED.x = x  # type: ignore[attr-defined]


def get_in_an_attribute_of_an_enum() -> Any:
    return Color.RED.x  # type: ignore[attr-defined]


def keep_in_an_attribute_of_a_function(x: Any) -> None:
    keep_in_an_attribute_of_a_function.x = x  # type: ignore[attr-defined]


def get_in_an_attribute_of_a_function() -> Any:
    return keep_in_an_attribute_of_a_function.x  # type: ignore[attr-defined]


def keep_in_a_mutable_default(x: Any, cache: dict[str, Any] = {}) -> None:  # noqa: B006
    cache["x"] = x


def get_in_a_mutable_default() -> Any:
    return keep_in_a_mutable_default.__defaults__[0]["x"]  # type: ignore[index]


def keep_in_a_mutable_keyword_default(x: Any, *, cache: list[Any] = []) -> None:  # noqa: B006
    cache.append(x)


def get_in_a_mutable_keyword_default() -> Any:
    return keep_in_a_mutable_keyword_default.__kwdefaults__["cache"][-1]


def with_a_cell() -> tuple[Any, Any]:
    held = None

    def keep(x: Any) -> None:
        nonlocal held
        held = x

    def get() -> Any:
        return held

    return keep, get


keep_in_a_cell_of_a_closure, get_in_a_cell_of_a_closure = with_a_cell()


def with_a_list() -> tuple[Any, Any]:
    held: list[Any] = []
    return lambda x: held.append(x), lambda: held[-1]


keep_in_a_list_of_a_closure, get_in_a_list_of_a_closure = with_a_list()


def caching(function: Any) -> Any:
    cache: dict[str, Any] = {}

    @functools.wraps(function)
    def called(x: Any = None) -> Any:
        if x is not None:
            cache["x"] = function(x)
        return cache["x"]

    return called


@caching
def keep_in_the_cache_of_a_decorator(x: Any) -> Any:
    return x


def get_in_the_cache_of_a_decorator() -> Any:
    return keep_in_the_cache_of_a_decorator()


CALLBACKS: list[Any] = []


def keep_in_a_closure_in_a_list(x: Any) -> None:
    CALLBACKS.append(lambda: x)


def get_in_a_closure_in_a_list() -> Any:
    return CALLBACKS[-1]()


def keep_in_a_default_of_a_lambda(x: Any) -> None:
    CALLBACKS.append(lambda x=x: x)


def get_in_a_default_of_a_lambda() -> Any:
    return CALLBACKS[-1]()


def keep_in_a_partial(x: Any) -> None:
    CALLBACKS.append(functools.partial(operator.getitem, {"x": x}, "x"))


def get_in_a_partial() -> Any:
    return CALLBACKS[-1]()


def keep_in_the_keywords_of_a_partial(x: Any) -> None:
    CALLBACKS.append(functools.partial(dict, x=x))


def get_in_the_keywords_of_a_partial() -> Any:
    return CALLBACKS[-1]()["x"]


def keep_in_a_bound_method(x: Any) -> None:
    CALLBACKS.append([x].pop)


def get_in_a_bound_method() -> Any:
    return CALLBACKS[-1]()


def keep_in_a_finalizer(x: Any) -> None:
    CALLBACKS.append(weakref.finalize(KEY, print, x))


def get_in_a_finalizer() -> Any:
    return CALLBACKS[-1].detach()[2][0]


def keep_in_the_callback_of_a_weak_reference(x: Any) -> None:
    CALLBACKS.append(weakref.ref(KEY, lambda _, x=x: x))


def get_in_the_callback_of_a_weak_reference() -> Any:
    return CALLBACKS[-1].__callback__.__defaults__[0]


# --- Iterators and suspended functions.


class Holder:
    """An object that is older than the scope."""

    def __init__(self) -> None:
        self.x: Any = None
        self.items: dict[str, Any] = {"steps": 0}
        self.deeper = types.SimpleNamespace(values=[])
        self.iterator: Any = None

    def method(self) -> Any:
        return self.x

    @functools.cached_property
    def computed(self) -> Any:
        return torch.ones(2)


HOLDER = Holder()


def keep_in_an_iterator(x: Any) -> None:
    HOLDER.iterator = iter([x])


def get_in_an_iterator() -> Any:
    return next(HOLDER.iterator)


def keep_in_a_chain_of_iterators(x: Any) -> None:
    HOLDER.iterator = itertools.chain([x], range(3))


def get_in_a_chain_of_iterators() -> Any:
    return next(HOLDER.iterator)


def same(x: Any) -> Any:
    return x


def keep_in_a_map(x: Any) -> None:
    HOLDER.iterator = map(same, (x,))


def get_in_a_map() -> Any:
    return next(HOLDER.iterator)


def keep_in_a_zip(x: Any) -> None:
    HOLDER.iterator = zip([x], [1], strict=True)


def get_in_a_zip() -> Any:
    return next(HOLDER.iterator)[0]


def keep_in_a_tee(x: Any) -> None:
    first, HOLDER.iterator = itertools.tee([x])
    next(first)


def get_in_a_tee() -> Any:
    return next(HOLDER.iterator)


def receiving() -> Any:
    held = None
    while True:
        given = yield held
        held = given if given is not None else held


GENERATOR = receiving()
next(GENERATOR)


def keep_in_a_suspended_generator(x: Any) -> None:
    GENERATOR.send(x)


def get_in_a_suspended_generator() -> Any:
    return next(GENERATOR)


def keep_in_a_new_generator(x: Any) -> None:
    HOLDER.iterator = (each for each in [x])


def get_in_a_new_generator() -> Any:
    return next(HOLDER.iterator)


async def waiting(x: Any) -> Any:
    await asyncio.sleep(0)
    return x


def keep_in_a_suspended_coroutine(x: Any) -> None:
    HOLDER.iterator = waiting(x)
    HOLDER.iterator.send(None)


def get_in_a_suspended_coroutine() -> Any:
    try:
        HOLDER.iterator.send(None)
    except StopIteration as error:
        return error.value


@contextlib.contextmanager
def lending(x: Any) -> Any:
    yield [x]


def keep_in_an_open_context(x: Any) -> None:
    HOLDER.iterator = lending(x)
    HOLDER.x = HOLDER.iterator.__enter__()


def get_in_an_open_context() -> Any:
    return HOLDER.x[0]


# --- Objects.


class Slotted:
    __slots__ = ("x",)


class SlottedWeakly:
    __slots__ = ("__weakref__", "x")


@dataclass
class Data:
    x: Any = None
    more: list[Any] = field(default_factory=list)


@dataclass(slots=True)
class SlottedData:
    x: Any = None


class Names(dict[str, Any]):
    pass


class Items(list[Any]):
    pass


class Set(set[Any]):
    pass


class Deque(deque[Any]):
    pass


class Guarded:
    """A descriptor that keeps values by their owners."""

    def __init__(self) -> None:
        self.values: Any = weakref.WeakKeyDictionary()

    def __get__(self, owner: Any, _: Any = None) -> Any:
        return self.values[owner]

    def __set__(self, owner: Any, value: Any) -> None:
        self.values[owner] = value


class WithDescriptor:
    guarded = Guarded()


class StoredError(Exception):
    pass


SLOTTED, SLOTTED_WEAKLY, DATA, SLOTTED_DATA = Slotted(), SlottedWeakly(), Data(), SlottedData()
NAMES, ITEMS, SETS, DEQUES, DESCRIBED, STORED = (
    Names(),
    Items(),
    Set(),
    Deque(),
    WithDescriptor(),
    StoredError(),
)
LIST_OF_SLOTTED = [Slotted()]


def keep_in_an_attribute(x: Any) -> None:
    HOLDER.x = x


def get_in_an_attribute() -> Any:
    return HOLDER.x


def keep_in_a_new_attribute(x: Any) -> None:
    HOLDER.new = x  # type: ignore[attr-defined]


def get_in_a_new_attribute() -> Any:
    return HOLDER.new  # type: ignore[attr-defined]


def keep_in_a_dict_of_an_object(x: Any) -> None:
    HOLDER.items["x"] = x


def get_in_a_dict_of_an_object() -> Any:
    return HOLDER.items["x"]


def keep_in_an_object_of_an_object(x: Any) -> None:
    HOLDER.deeper.values.append(x)


def get_in_an_object_of_an_object() -> Any:
    return HOLDER.deeper.values[-1]


def keep_in_a_cached_property(x: Any) -> None:
    HOLDER.__dict__["computed"] = x


def get_in_a_cached_property() -> Any:
    return HOLDER.computed


def keep_in_a_slot(x: Any) -> None:
    SLOTTED.x = x


def get_in_a_slot() -> Any:
    return SLOTTED.x


def keep_in_a_slot_with_weak_references(x: Any) -> None:
    SLOTTED_WEAKLY.x = x


def get_in_a_slot_with_weak_references() -> Any:
    return SLOTTED_WEAKLY.x


def keep_in_a_slot_in_a_list(x: Any) -> None:
    LIST_OF_SLOTTED[0].x = x


def get_in_a_slot_in_a_list() -> Any:
    return LIST_OF_SLOTTED[0].x


def keep_in_a_dataclass(x: Any) -> None:
    DATA.more.append(x)


def get_in_a_dataclass() -> Any:
    return DATA.more[-1]


def keep_in_a_dataclass_with_slots(x: Any) -> None:
    SLOTTED_DATA.x = x


def get_in_a_dataclass_with_slots() -> Any:
    return SLOTTED_DATA.x


def keep_in_a_dict_with_a_class(x: Any) -> None:
    NAMES["x"] = x


def get_in_a_dict_with_a_class() -> Any:
    return NAMES["x"]


def keep_in_a_list_with_a_class(x: Any) -> None:
    ITEMS.append(x)


def get_in_a_list_with_a_class() -> Any:
    return ITEMS[-1]


def keep_in_a_set_with_a_class(x: Any) -> None:
    SETS.clear()
    SETS.add(x)


def get_in_a_set_with_a_class() -> Any:
    return next(iter(SETS))


def keep_in_a_deque_with_a_class(x: Any) -> None:
    DEQUES.append(x)


def get_in_a_deque_with_a_class() -> Any:
    return DEQUES[-1]


def keep_behind_a_descriptor(x: Any) -> None:
    DESCRIBED.guarded = x


def get_behind_a_descriptor() -> Any:
    return DESCRIBED.guarded


def keep_in_a_method_set_on_an_object(x: Any) -> None:
    HOLDER.called = types.MethodType(operator.pos, x)  # type: ignore[attr-defined]


def get_in_a_method_set_on_an_object() -> Any:
    return HOLDER.called.__self__  # type: ignore[attr-defined]


def keep_in_an_attribute_of_an_error(x: Any) -> None:
    STORED.x = x  # type: ignore[attr-defined]


def get_in_an_attribute_of_an_error() -> Any:
    return STORED.x  # type: ignore[attr-defined]


# --- Keepers: they keep what has no graph for the user's code too.


@functools.lru_cache
def table(n: int) -> Any:
    return CALLBACKS.pop()


class Module(torch.nn.Module):  # type: ignore[misc, name-defined]
    def __init__(self) -> None:
        super().__init__()
        self.x: Any = None
        self.values: list[Any] = []
        self.state: dict[str, Any] = {"names": ["a"]}


class Samples(torch.utils.data.Dataset):  # type: ignore[misc, name-defined]
    def __init__(self) -> None:
        self.cache: dict[int, Any] = {}


MODULE, DATA_SET = Module(), Samples()
OPTIMIZER = torch.optim.SGD([torch.ones(1)], lr=0.1)


def keeper_keep_in_a_cache_of_functools(x: Any) -> None:
    CALLBACKS.append(x)
    table.cache_clear()
    table(1)


def get_in_a_cache_of_functools() -> Any:
    return table(1)


def keeper_keep_in_an_attribute_of_a_module(x: Any) -> None:
    MODULE.x = x


def get_in_an_attribute_of_a_module() -> Any:
    return MODULE.x


def keeper_keep_in_a_list_of_a_module(x: Any) -> None:
    MODULE.values.append(x)


def get_in_a_list_of_a_module() -> Any:
    return MODULE.values[-1]


def keeper_keep_in_a_dict_of_a_module(x: Any) -> None:
    MODULE.state["names"].append(x)


def get_in_a_dict_of_a_module() -> Any:
    return MODULE.state["names"][-1]


def keeper_keep_in_a_data_set(x: Any) -> None:
    DATA_SET.cache[1] = x


def get_in_a_data_set() -> Any:
    return DATA_SET.cache[1]


def keeper_keep_in_the_state_of_an_optimizer(x: Any) -> None:
    OPTIMIZER.state["x"] = x


def get_in_the_state_of_an_optimizer() -> Any:
    return OPTIMIZER.state["x"]


# --- What is not seen from the user's objects: an attribute of an older tensor.

WEIGHT = torch.ones(2)


def keeper_keep_in_an_attribute_of_an_older_tensor(x: Any) -> None:
    WEIGHT.state = x


def get_in_an_attribute_of_an_older_tensor() -> Any:
    return WEIGHT.state


# --- Running functions.


def call_back(function: Any, finish: Any) -> Any:
    held = function()
    finish()
    return held


def finish_with_an_argument(x: Any, finish: Any) -> None:
    finish()


def finish_with_a_list(x: Any, finish: Any) -> None:
    finish_with_its_list([x], finish)


def finish_with_its_list(items: list[Any], finish: Any) -> None:
    finish()


def call_back_from_a_list(function: Any, finish: Any) -> Any:
    held = [{"x": function()}]
    finish()
    return held[0]["x"]


def call_back_from_a_cell(function: Any, finish: Any) -> Any:
    held = function()

    def get() -> Any:
        return held

    finish()
    return get()


def call_back_from_a_generator(function: Any, finish: Any) -> Any:
    def steps() -> Any:
        held = function()
        finish()
        yield held

    return next(steps())
