import io
from array import array
from collections import ChainMap, OrderedDict, UserDict, UserList, defaultdict, deque
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType, SimpleNamespace
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tensor
from scopes import dispose, disposing, new_dispose_scope
from scopes.core.containers import find, is_disposable
from tests.strategies import Pair, Record, SlottedRecord, nestings, plain
from tests.things import Holder, Module, Resource, Thing


def found(x, *, inside=True):
    return find([x], is_disposable, inside=inside)


@pytest.mark.parametrize(
    "wrap",
    [
        lambda x: x,
        lambda x: [x],
        lambda x: (x,),
        lambda x: Pair(1, x),
        lambda x: {"key": x},
        lambda x: {x: "value"},
        lambda x: {x},
        lambda x: frozenset([x]),
        lambda x: deque([x]),
        lambda x: OrderedDict(a=x),
        lambda x: defaultdict(list, a=[x]),
        lambda x: {"key": x}.values(),
        lambda x: {"key": x}.items(),
        lambda x: {x: "value"}.keys(),
        lambda x: MappingProxyType({"key": x}),
        lambda x: ChainMap({"key": x}),
        lambda x: UserList([x]),
        lambda x: UserDict(key=x),
        lambda x: SimpleNamespace(deep=[x]),
        lambda x: Record("text", x),
        lambda x: SlottedRecord(x),
        lambda x: Holder(x),
        lambda x: [{"deep": (Pair(Record(1, [x]), 2),)}],
    ],
)
def test_disposables_in_each_kind_of_container_move(wrap) -> None:
    with new_dispose_scope() as outer, new_dispose_scope() as inner:
        x = tensor.ones((1,))
        nest = wrap(x)
        assert inner.move_to_outer(nest) is nest
        assert x in outer


def test_dispose_ends_what_it_finds_last_first_as_a_scope_does():
    ended = []
    a, b, c, d = (Thing(when_cleared=ended.append) for _ in range(4))
    dispose(a, [b, {"key": c}], d)
    assert ended == [d, c, b, a]


@given(st.data())
def test_any_nesting_is_found_once_and_in_order(data) -> None:
    things = []

    def make(_):
        things.append(Resource())
        return things[-1]

    nest = data.draw(nestings(st.one_of(plain, st.integers().map(make))))
    order = found([nest, nest])
    assert len(order) == len(set(map(id, order)))
    assert {id(x) for x in order} <= {id(x) for x in things}
    assert order == found(nest)
    assert [repr(x) for x in order] == [name for name in _flat(nest) if "Resource" in name]


def _flat(x):
    """As `found`, by recursion."""
    if isinstance(x, Mapping):
        return [name for item in x.items() for part in item for name in _flat(part)]
    if isinstance(x, (list, tuple, deque)):
        return [name for part in x for name in _flat(part)]
    if isinstance(x, Record):
        return _flat(x.first) + _flat(x.second)
    if isinstance(x, SlottedRecord):
        return _flat(x.first)
    if isinstance(x, Holder):
        return _flat(x.held)
    return [repr(x)]


ignoring = pytest.mark.filterwarnings("ignore:.*found no tensor:UserWarning")


@ignoring
@given(nestings(plain))
def test_a_value_that_is_not_disposable_passes_through(nest) -> None:
    with new_dispose_scope() as scope:
        assert scope.attach(nest) is nest
        assert scope.move_to_outer(nest) is nest
        assert len(scope) == 0


@ignoring
@given(nestings(st.builds(Resource)))
def test_a_whole_nesting_is_attached_and_ends_once(nest) -> None:
    with new_dispose_scope() as scope:
        scope.attach(nest, [nest])
        members = found(nest)
        assert set(map(id, scope.disposables_view)) == set(map(id, members))
    assert all(x.log == [x] for x in members)


def test_cycles_are_fine() -> None:
    x = Thing()
    loop = [x]
    loop.append({"self": loop, "holder": Holder(loop)})
    assert found(loop) == [x]


def test_depth_does_not_matter() -> None:
    x = Resource()
    nest = x
    for _ in range(100_000):
        nest = [nest]
    assert found(nest) == [x]
    while isinstance(nest, list):  # taken apart in a loop, since its deallocation would recurse
        nest = nest[0]


def test_containers_made_on_the_fly_are_all_looked_into() -> None:
    things = [Thing() for _ in range(100)]

    class Fleeting:
        def __init__(self, n):
            self.n = n

        def __disposables__(self):
            # The inner list is gone before the next is made, and leaves it its id.
            return [[things[self.n]], Fleeting(self.n + 1)] if self.n < len(things) else []

    assert found(Fleeting(0)) == things


def test_search_finds_members_of_a_module_only_with_inside() -> None:
    x = Thing()
    module = Module(x)
    assert found(module, inside=False) == [module]
    assert found(module) == [module, x]


def never(*_):
    raise AssertionError("the search ran a method of the collection")


class Stored(Mapping):
    """A user's mapping: a value is read from a file when it is asked for."""

    __getitem__ = __iter__ = __len__ = __contains__ = items = values = keys = never

    def __init__(self, **known):
        self.known = known


class Loud(UserList):
    __iter__ = __getitem__ = __len__ = never


class LoudRows(list):
    __iter__ = __getitem__ = __len__ = never


class LoudNames(dict):
    __iter__ = __getitem__ = __len__ = items = values = keys = never


@pytest.mark.parametrize(
    "wrap",
    [
        lambda x: Stored(x=[x]),
        lambda x: MappingProxyType(Stored(x=x)),
        lambda x: Loud([x]),
        lambda x: LoudRows([x]),
        lambda x: LoudNames(x=x),
        lambda x: LoudNames({x: "key"}),
        lambda x: [{"deep": Stored(x=Loud([x]))}],
        lambda x: Holder([Stored(x=x)]),
    ],
)
@pytest.mark.parametrize("call", ["attach", "detach", "move_to_outer", "dispose_everything_but"])
def test_a_search_runs_no_method_of_a_users_collection(wrap, call) -> None:
    with new_dispose_scope() as scope:
        x = tensor.ones((1,))
        nest = wrap(x)
        assert found([nest]) == [x]
        assert getattr(scope, call)(nest) is nest
        dispose(nest)
    assert x.is_invalid


def test_a_collection_of_many_things_has_no_limit() -> None:
    things = Stored(rows=[Resource() for _ in range(100_001)])
    assert len(found(things)) == 100_001


def test_views_of_a_users_mapping_have_what_the_view_has() -> None:
    key, value = Thing(), Thing()
    mapping = UserDict({key: value})
    assert found(mapping.keys()) == [key]
    assert found(mapping.values()) == [value]
    assert found(mapping.items()) == [key, value]


@pytest.mark.parametrize("wrap", [list, lambda xs: (x for x in xs), iter])
def test_a_progress_bar_is_not_advanced(wrap) -> None:
    tqdm = pytest.importorskip("tqdm").tqdm
    x, screen = Thing(), io.StringIO()
    batches = wrap([x])
    with tqdm(batches, total=1, file=screen) as bar, new_dispose_scope() as scope:
        before = screen.getvalue()
        state = {"bar": bar, "x": x}
        assert scope.detach(state) is state
        assert x not in scope
        assert bar.n == 0
        assert screen.getvalue() == before
        assert list(batches) == [x]


class Unread(UserDict):
    """A mapping that is read before its data is there."""

    def __init__(self, x):
        self.x = x


def test_a_collection_without_its_data_is_looked_into_by_its_attributes() -> None:
    x = Thing()
    assert found([Unread(x)]) == [x]
    with new_dispose_scope() as outer:
        kept = disposing(lambda: Unread(Thing()))()
        assert found(kept)[0] in outer


def test_fields_of_a_dataclass_that_are_not_there_are_passed_over() -> None:
    @dataclass(init=False)
    class Late:
        first: object
        second: object
        shared: ClassVar[object] = Thing()

    late = Late()
    late.second = x = Thing()
    assert found(late) == [x]


class Estimator:
    """What scikit-learn's estimators are to the walk: parameters, and what was fitted."""

    def __init__(self, **attributes):
        vars(self).update(attributes)

    def get_params(self):
        return {}

    def set_params(self):
        return self


def test_the_attributes_of_an_estimator_are_found_in_estimators_inside_it_too() -> None:
    weights, means = Thing(), Thing()
    pipeline = Estimator(steps=[("scale", Estimator(mean_=means)), ("fit", Estimator(coef_=weights, C=1.0))])
    assert found(pipeline) == [means, weights]
    assert found(Estimator) == []


def test_detaching_an_estimator_keeps_its_fitted_tensors() -> None:
    with new_dispose_scope() as scope:
        estimator = scope.detach(Estimator(coef_=tensor.ones((2,))))
    assert estimator.coef_.tolist() == [1.0, 1.0]


def test_classes_are_no_disposables() -> None:
    assert found([Thing, Resource, Record, Holder]) == []


class ClosingByName(type):
    def __getattr__(cls, name: str) -> object:
        if name == "close":
            return cls.shut
        raise AttributeError(name)


class ClosingByMethod(type):
    def close(cls) -> None: ...


@pytest.mark.parametrize("metaclass", [ClosingByName, ClosingByMethod])
def test_a_metaclass_may_give_a_class_its_close(metaclass: type) -> None:
    def shut(self) -> None:
        self.is_open = False

    def init(self) -> None:
        self.is_open = True
        self.close = lambda: shut(self)

    kind = metaclass("Handle", (), {"shut": shut, "__init__": init})
    with new_dispose_scope() as scope:
        handle = scope.attach(kind())
    assert not handle.is_open


def test_strings_ranges_and_arrays_are_left_alone() -> None:
    assert found(["text", b"bytes", range(3), array("d", [1.0]), memoryview(b"x"), np.ones((3,))]) == []


@pytest.mark.parametrize(
    "make",
    [
        lambda xs: (x for x in xs),
        lambda xs: map(id, xs),
        lambda xs: zip(xs, xs, strict=True),
        lambda xs: filter(None, xs),
        iter,
        reversed,
        enumerate,
        lambda xs: {"deep": [iter(xs)]},
    ],
)
@pytest.mark.parametrize("call", ["attach", "detach", "move_to_outer", "dispose_everything_but"])
def test_iterator_that_a_search_would_use_up_is_refused(make, call) -> None:
    with new_dispose_scope() as scope:
        x = Thing()
        items = make([x])
        with pytest.raises(TypeError, match=r"yields its items only once.*: write list\(...\) around it"):
            getattr(scope, call)(items)
        assert x in scope
        assert x.whole
        with pytest.raises(TypeError, match="yields its items only once"):
            dispose(items)
        if not isinstance(items, dict):
            assert len(list(items)) == 1


def test_an_open_file_is_a_resource_and_no_iterator_to_be_refused() -> None:
    file = io.StringIO("a\nb")
    with new_dispose_scope() as scope:
        assert scope.detach([file]) == [file]
        assert scope.attach([file]) == [file]
    assert file.closed


class Cache:
    """As a cache of a model's keys: objects in a list, and a property that must not run."""

    def __init__(self, *layers):
        self.layers = [Layer(x) for x in layers]
        self.config = {"layers": len(layers)}

    @property
    def seen(self):
        raise AssertionError("the walk runs no property")


class Layer:
    __slots__ = ("keys", "missing")

    def __init__(self, keys):
        self.keys = keys


class Named(dict):
    def __init__(self, *args, **kwargs):
        super().__init__(*args)
        self.__dict__.update(kwargs)


class Rows(list):
    pass


def rows(*xs, **attributes):
    made = Rows(xs)
    made.__dict__.update(attributes)
    return made


@pytest.mark.parametrize("call", ["detach", "move_to_outer", "move_to_other"])
@pytest.mark.parametrize(
    "wrap",
    [
        Cache,
        Layer,
        lambda x: [Cache(1, x)],
        lambda x: Named({"x": x}),
        lambda x: Named(x=x),
        lambda x: rows(x),
        lambda x: rows(1, x=x),
        lambda x: Cache(SimpleNamespace(deep={"a": Layer(x)})),
    ],
)
def test_attributes_of_any_object_are_looked_into(wrap, call) -> None:
    with new_dispose_scope() as outer:
        with new_dispose_scope() as inner:
            nest = wrap(tensor.ones((1,)))
            x = inner.disposables_view[-1]
            assert getattr(inner, call)(*([outer] if call == "move_to_other" else []), nest) is nest
        assert not x.is_invalid
        assert (x in outer) == (call != "detach")


def test_an_object_that_is_attached_ends_with_the_scope() -> None:
    x = tensor.ones((1,))
    with new_dispose_scope() as scope:
        scope.attach(Cache(x))
    assert x.is_invalid


def test_modules_functions_and_classes_are_not_looked_into() -> None:
    x = Thing()

    def function():
        return x

    function.x = x
    holder = SimpleNamespace(library=io, function=function, kind=type("Kind", (), {"x": x}), items=iter([x]))
    assert found(Cache(holder)) == []


def test_objects_that_refer_to_each_other_are_looked_into_once() -> None:
    first, second = Cache(), Cache()
    first.other, second.other, second.x = second, first, Thing()
    assert found([first, second]) == [second.x]


@pytest.mark.parametrize("call", ["attach", "detach", "move_to_outer"])
def test_an_object_that_holds_nothing_gives_a_warning(call) -> None:
    with new_dispose_scope() as scope:
        x = Thing()
        with pytest.warns(
            UserWarning, match=rf"^{call}\(\) found no tensor.* in this Cache\..*scope\.{call}"
        ):
            getattr(scope, call)(x, Cache(1, 2))
        for plain_value in (None, 1, "text", [], {"epoch": 1}, Pair(1, 2), np.ones(2), Thing):
            assert getattr(scope, call)(plain_value) is plain_value


def test_a_function_may_return_an_object_without_tensors() -> None:
    made = disposing(Cache, 1)
    assert made.config == {"layers": 1}


def test_a_walk_through_too_many_objects_ends_with_a_warning() -> None:
    x = Thing()
    with pytest.warns(UserWarning, match=r"more than 100,000 objects in the attributes of this Cache"):
        assert found(Cache(*range(200_000))) == []
    assert found([Layer(i) for i in range(1000)] + [x]) == [x]


class Lazy:
    """A proxy as those of Django: any question about its value runs a query."""

    def _ask(self, *_):
        raise AssertionError("the search ran a query")

    __class__ = property(_ask)
    __iter__ = __len__ = __contains__ = __getitem__ = __getattr__ = _ask


@pytest.mark.parametrize(
    "wrap",
    [
        lambda x: x,
        lambda x: [x],
        lambda x: {"user": x},
        lambda x: SimpleNamespace(user=x),
        lambda x: Holder(x),
        lambda x: [SimpleNamespace(user=Holder([x]))],
    ],
)
def test_a_search_runs_no_code_of_lazy_proxies(wrap) -> None:
    with new_dispose_scope() as scope:
        x = Thing()
        request = [wrap(object.__new__(Lazy)), x]
        assert scope.detach(request) is request
        assert x not in scope
        scope.attach(request)
        assert found(request) == [x]
        scope.move_to_outer(request)
        dispose(request)
    assert x.is_invalid


def test_a_search_looks_into_the_attributes_of_a_proxy_that_has_its_value() -> None:
    x = Thing()
    proxy = object.__new__(Lazy)
    object.__setattr__(proxy, "_wrapped", [x])
    assert found(proxy) == [x]
