"""Tensors over memory of others: who holds it, how long, and who sees which write."""

import array
import copy
import ctypes
import gc
import mmap
import pickle
import subprocess
import sys
import sysconfig
import threading
import time
from multiprocessing.shared_memory import SharedMemory
from pathlib import Path

import numpy as np
import pytest

import tensor
from scopes import new_dispose_scope
from tensor import memory
from tensor.creation import external_memory

ROOT = Path(__file__).parents[2]


class Calls:
    """Counts how often it was called."""

    def __init__(self):
        self.count = 0

    def __call__(self):
        self.count += 1


def numbers(n: int = 4) -> bytearray:
    return bytearray(np.arange(n, dtype=np.float32).tobytes())


SOURCES = {
    "bytearray": numbers,
    "array": lambda: array.array("f", range(4)),
    "array of other items": lambda: array.array("B", numbers()),
    "memoryview": lambda: memoryview(numbers()),
    "memoryview of doubles": lambda: memoryview(np.frombuffer(numbers(), "float64")),
    "ndarray": lambda: np.arange(4, dtype="float32"),
    "ndarray in Fortran's order": lambda: np.arange(4, dtype="float32").reshape(2, 2).T,
    "ctypes": lambda: (ctypes.c_float * 4)(0, 1, 2, 3),
    "bytes": lambda: bytes(numbers()),
    "read-only memoryview": lambda: memoryview(numbers()).toreadonly(),
}
READ_ONLY = {"bytes", "read-only memoryview"}


@pytest.mark.parametrize("name", SOURCES)
def test_each_kind_of_buffer_gives_its_numbers_without_a_copy(name):
    source = SOURCES[name]()
    x = tensor.from_blob(source, (2, 2), "float32")
    assert (x.tolist(), x.dtype) == ([[0.0, 1.0], [2.0, 3.0]], tensor.float32)
    x[0, 1] = 9.0
    seen = np.frombuffer(memoryview(source).tobytes(order="A"), np.float32)
    assert seen.tolist() == [0.0, 1.0 if name in READ_ONLY else 9.0, 2.0, 3.0]


def test_both_sides_see_each_others_writes_and_a_clone_neither():
    source = array.array("f", [0, 0])
    x = tensor.from_blob(source, (2,), "float32")
    clone = x.clone()
    source[0] = 1.0
    x[1] = 2.0
    assert (x.tolist(), list(source), clone.tolist()) == ([1.0, 2.0], [1.0, 2.0], [0.0, 0.0])
    clone[0] = 5.0
    assert list(source) == [1.0, 2.0]


def test_first_write_to_read_only_memory_copies_it_and_releases_the_source():
    released = Calls()
    source = b"\x01\x02\x03\x04"
    x = tensor.from_blob(source, (4,), "uint8", on_release=released)
    view, alias = x[1:], x.alias()
    x[1] = 9
    assert released.count == 1
    assert (source, view.tolist(), alias.tolist()) == (b"\x01\x02\x03\x04", [9, 3, 4], [1, 9, 3, 4])


def test_views_of_a_strided_read_only_blob_keep_their_elements_when_a_write_copies():
    x = tensor.from_blob(bytes(range(12)), (3, 2), "uint8", strides=(4, 2), offset=1)
    assert x.tolist() == [[1, 3], [5, 7], [9, 11]]
    view = x.T[1]
    x[2, 1] = 0
    assert view.tolist() == [3, 7, 0]
    view[0] = 8
    assert x.tolist() == [[1, 8], [5, 7], [9, 0]]


def test_strides_count_elements_and_offset_counts_bytes():
    x = tensor.from_blob(numbers(10), (2, 3), "float32", strides=(1, 3), offset=4)
    assert x.tolist() == [[1.0, 4.0, 7.0], [2.0, 5.0, 8.0]]
    assert x.stride() == (1, 3)


def test_any_address_will_do():
    source = bytearray(b"\xff") + numbers(3)
    x = tensor.from_blob(source, (3,), "float32", offset=1)
    x += 1
    assert x.tolist() == [1.0, 2.0, 3.0]
    assert np.frombuffer(source, np.float32, offset=1).tolist() == [1.0, 2.0, 3.0]


@pytest.mark.parametrize("shape", [(), (1,), (0,), (0, 3), (2, 0)])
def test_from_blob_with_few_or_no_elements_holds_the_buffer(shape):
    released = Calls()
    source = bytearray(4)
    x = tensor.from_blob(source, shape, "float32", on_release=released)
    assert (x.shape, released.count) == (shape, 0)
    with pytest.raises(BufferError):
        source.clear()
    x.dispose()
    source.clear()
    assert released.count == 1


@pytest.mark.skipif(sys.version_info < (3, 12), reason="Python needs __buffer__ from 3.12 on")
def test_from_blob_takes_a_class_with_a_buffer_and_releases_the_buffer():
    told = []

    class Ring:
        def __init__(self):
            self.memory = bytearray(8)

        def __buffer__(self, flags):
            return memoryview(self.memory)

        def __release_buffer__(self, view):
            told.append(view.nbytes)
            view.release()

    ring = Ring()
    x = tensor.from_blob(ring, (2,), "float32")
    told.clear()
    x[1] = 1.0
    assert ring.memory[4:] == np.float32(1).tobytes()
    x.dispose()
    assert told == [8]
    ring.memory.clear()
    y = tensor.zeros((2,))
    tensor.from_blob(y, (2,), "float32")[0] = 5.0
    assert y.tolist() == [5.0, 0.0]


def test_an_empty_buffer_is_one():
    assert tensor.from_blob(b"", (0,), "int64").tolist() == []


@pytest.mark.parametrize(
    ("shape", "options", "message"),
    [
        ((5,), {}, r"needs 20 bytes from offset 0, to byte 20; the buffer has 16"),
        ((4,), {"offset": 1}, r"needs 16 bytes from offset 1, to byte 17; the buffer has 16"),
        ((2, 2), {"strides": (3, 1), "offset": 4}, r"strides \(3, 1\) needs 20 .* to byte 24; .* has 16"),
        ((0,), {"offset": 17}, r"needs 0 bytes from offset 17"),
        ((2**40,), {}, r"needs 4398046511104 bytes"),
        ((2**62, 2), {}, r"more bytes than any memory"),
        ((0, 2**62), {}, r"more bytes than any memory"),
        ((1,), {"strides": (2**80,)}, r"more bytes than any memory"),
        ((-1,), {}, r"not a shape"),
        ((1,), {"offset": -4}, r"offset must be at least 0 bytes, not -4"),
        ((2,), {"strides": (-1,)}, r"at least 0, not \(-1,\): flip"),
        ((2, 2), {"strides": (1,)}, r"2 dimensions, but strides has 1 values"),
        ((2, 2), {"strides": (1, 1)}, r"overlap"),
        ((2,), {"strides": (0,)}, r"overlap, so that a write.*expand"),
    ],
)
def test_an_argument_that_does_not_fit_is_named_before_anything_happens(shape, options, message):
    released = Calls()
    source = bytearray(16)
    with pytest.raises(ValueError, match=message) as caught:
        tensor.from_blob(source, shape, "float32", on_release=released, **options)
    source.clear()  # nothing holds it, though the error is kept
    assert caught.value is not None
    assert released.count == 0


@pytest.mark.parametrize(
    ("source", "dtype", "error", "message"),
    [
        (bytearray(8), ">f4", ValueError, "byte order"),
        (bytearray(8), "S4", TypeError, "do not support"),
        (bytearray(8), "no such", TypeError, "not a dtype"),
        ([1.0, 2.0], "float32", TypeError, r"takes a buffer.*not list.*tensor\.tensor"),
        (np.zeros((4, 4))[:, ::2], "float64", ValueError, "without gaps"),
        (np.array([None, None]), "int64", TypeError, "references to Python objects"),
    ],
)
def test_arguments_that_are_no_buffer_or_no_dtype_are_named(source, dtype, error, message):
    released = Calls()
    with pytest.raises(error, match=message):
        tensor.from_blob(source, (1,), dtype, on_release=released)
    assert released.count == 0


def test_an_on_release_that_is_not_callable_is_named():
    with pytest.raises(TypeError, match=r"on_release must be callable without arguments, not 3"):
        tensor.from_blob(bytearray(4), (1,), "float32", on_release=3)


def test_a_mapped_file_closes_right_after_the_scope_and_not_before(tmp_path):
    path = tmp_path / "numbers"
    path.write_bytes(numbers())
    with path.open("r+b") as file:
        mapped = mmap.mmap(file.fileno(), 0)
    with new_dispose_scope():
        x = tensor.from_blob(mapped, (4,), "float32")
        y = x[1:] * 2
        x[0] = 7.0
        with pytest.raises(BufferError):
            mapped.close()
        assert y.tolist() == [2.0, 4.0, 6.0]
    mapped.close()
    assert np.fromfile(path, np.float32).tolist() == [7.0, 1.0, 2.0, 3.0]


def test_a_read_only_mapping_is_left_untouched_by_a_write(tmp_path):
    path = tmp_path / "numbers"
    path.write_bytes(numbers())
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        with new_dispose_scope():
            x = tensor.from_blob(mapped, (4,), "float32")
            x += 1
            assert x.tolist() == [1.0, 2.0, 3.0, 4.0]
    assert path.read_bytes() == bytes(numbers())


def test_shared_memory_closes_right_after_the_scope_and_stays_whole_when_it_may_not():
    shared = SharedMemory(create=True, size=16)
    try:
        with new_dispose_scope():
            x = tensor.from_blob(shared.buf, (4,), "float32")
            x[:] = 3.0
            with pytest.raises(BufferError):
                shared.close()
            assert shared.buf[:4] == np.float32(3).tobytes()  # the failed close took nothing away
        shared.close()
    finally:
        shared.unlink()


def test_a_memmap_stays_mapped_while_a_tensor_lives(tmp_path):
    mapped = np.memmap(tmp_path / "numbers", np.float32, "w+", shape=(2, 2))
    x = tensor.from_blob(mapped[1:], (2,), "float32")
    with pytest.raises(BufferError):
        mapped._mmap.close()
    x[1] = 5.0
    assert mapped[1, 1] == 5.0
    x.dispose()
    mapped._mmap.close()


@pytest.mark.parametrize(
    "kept",
    [
        lambda x: x.alias(),
        lambda x: x[1:],
        lambda x: x.detach(),
        lambda x: x.numpy()[2:],
        lambda x: memoryview(np.asarray(x)),
        lambda x: np.from_dlpack(x),
        lambda x: x.move_handle(),
        lambda x: tensor.from_numpy(x.numpy()),
    ],
)
def test_the_last_holder_of_any_kind_releases_once(kept):
    released = Calls()
    source = numbers()
    x = tensor.from_blob(source, (4,), "float32", on_release=released)
    holder = kept(x)
    x.dispose()
    assert released.count == 0
    with pytest.raises(BufferError):
        source.clear()
    del holder
    assert released.count == 1
    source.clear()


@pytest.mark.parametrize("kept", [lambda x: x.numpy(), lambda x: memoryview(np.asarray(x.detach()))])
def test_bytes_stay_external_until_the_last_exported_array_is_gone(kept):
    before = memory.statistics()
    x = tensor.from_blob(numbers(), (4,), "float32")
    holder = kept(x)
    x.dispose()
    held = memory.statistics()
    assert (held.bytes_external - before.bytes_external, held.bytes_pinned - before.bytes_pinned) == (16, 0)
    del holder
    assert memory.statistics().bytes_external == before.bytes_external


@pytest.mark.parametrize("copied", [lambda x: x.clone(), lambda x: x * x, copy.deepcopy, pickle.dumps])
def test_a_copy_does_not_hold_the_buffer(copied):
    released = Calls()
    x = tensor.from_blob(numbers(), (4,), "float32", on_release=released)
    y = copied(x)
    x.dispose()
    assert released.count == 1
    del y


def test_the_tape_keeps_values_and_not_the_buffer():
    released = Calls()
    source = numbers()
    x = tensor.from_blob(source, (4,), "float32", on_release=released)
    w = tensor.ones((4,), requires_grad=True)
    loss = (w * x).sum()
    source[:] = bytes(16)
    x.dispose()
    assert released.count == 1
    loss.backward()
    assert w.grad.tolist() == [0.0, 1.0, 2.0, 3.0]


def test_in_place_update_of_a_leaf_over_a_blob_writes_to_the_blob():
    source = numbers()
    x = tensor.from_blob(source, (4,), "float32").requires_grad_()
    (x * x).sum().backward()
    with tensor.no_grad():
        x -= 0.5 * x.grad
    assert np.frombuffer(source, np.float32).tolist() == [0.0] * 4


def test_a_deleted_tensor_releases_without_a_collection():
    released = Calls()
    gc.disable()
    try:
        with new_dispose_scope():
            x = tensor.from_blob(numbers(), (4,), "float32", on_release=released)
            y = x.reshape(2, 2).T
            del x
            assert released.count == 0
            del y
            assert released.count == 1
    finally:
        gc.enable()


def test_on_release_may_close_the_source():
    mapped = mmap.mmap(-1, 16)
    tensor.from_blob(mapped, (4,), "float32", on_release=mapped.close).dispose()
    assert mapped.closed


def test_errors_of_on_release_are_reported_and_break_nothing(monkeypatch):
    reports = []
    monkeypatch.setattr(sys, "unraisablehook", lambda report: reports.append(str(report.exc_value)))

    def fail():
        raise OSError("no such device")

    source = numbers()
    with new_dispose_scope():
        tensor.from_blob(source, (4,), "float32", on_release=fail)
        x = tensor.from_blob(source, (4,), "float32", on_release=fail)
        y = tensor.ones((2,))
    assert reports == ["no such device"] * 2
    assert (x.is_invalid, y.is_invalid) == (True, True)
    source.clear()


def fail_for_want_of_memory(*_):
    raise MemoryError


@pytest.mark.parametrize("strides", [None, (1,)])
def test_when_creation_fails_the_buffer_is_released_at_once(monkeypatch, strides):
    monkeypatch.setattr(external_memory, "wrap_borrowed", fail_for_want_of_memory)
    source = numbers()
    released = Calls()
    with pytest.raises(MemoryError) as caught:
        tensor.from_blob(source, (4,), "float32", strides=strides, on_release=released)
    assert released.count == 1
    source.clear()
    assert caught.value.__traceback__ is not None


def test_when_creation_fails_the_address_is_released_at_once(monkeypatch):
    monkeypatch.setattr(external_memory, "wrap_borrowed", fail_for_want_of_memory)
    released = Calls()
    with pytest.raises(MemoryError) as caught:
        tensor.from_address(address_of(np.zeros(1)), (1,), "float64", on_release=released)
    assert released.count == 1
    assert caught.value.__traceback__ is not None


def test_an_interrupt_in_on_release_is_raised_again_and_leaves_no_byte_borrowed(monkeypatch):
    reports = []
    monkeypatch.setattr(sys, "unraisablehook", lambda report: reports.append(report.exc_type))

    def interrupted():
        raise KeyboardInterrupt

    before = memory.statistics().bytes_external
    source = numbers()
    x = tensor.from_blob(source, (4,), "float32", on_release=interrupted)
    with pytest.raises(KeyboardInterrupt):
        x.dispose()
        time.sleep(60)
    assert (reports, x.is_invalid) == ([KeyboardInterrupt], True)
    assert memory.statistics().bytes_external == before
    source.clear()


def test_on_release_finds_the_bytes_given_back_and_may_make_tensors():
    seen = []

    def look():
        seen.append((memory.statistics().bytes_external, tensor.ones((2,)).sum().item()))

    before = memory.statistics().bytes_external
    tensor.from_blob(numbers(), (4,), "float32", on_release=look).dispose()
    assert seen == [(before, 2.0)]


def output_of(program: str) -> str:
    run = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert run.stderr == ""
    return run.stdout


def test_at_the_end_of_a_program_on_release_is_called_and_its_module_is_finalized(tmp_path):
    path = tmp_path / "log"
    program = (
        "import tensor\n"
        f"log = open({str(path)!r}, 'w')\n"
        "log.write('begun ')\n"
        "def release():\n"
        "    log.write('released')\n"
        "class Owner:\n"
        "    pass\n"
        "x = tensor.from_blob(bytearray(8), (2,), 'float32', on_release=release)\n"
        "view = x[1:]\n"
        "y = tensor.from_address(x.data_ptr(), (2,), 'float32', owner=Owner())\n"
    )
    assert output_of(program) == ""
    assert path.read_text(encoding="utf-8") == "begun released"


def test_an_exported_array_at_the_end_of_a_program_keeps_no_module_from_being_finalized(tmp_path):
    path = tmp_path / "log"
    program = (
        "import tensor\n"
        f"log = open({str(path)!r}, 'w')\n"
        "log.write('begun')\n"
        "x = tensor.from_blob(bytearray(8), (2,), 'float32', on_release=lambda: log.write('released'))\n"
        "array = x.numpy()\n"
    )
    assert output_of(program) == ""
    assert path.read_text(encoding="utf-8") == "begun"


def test_blobs_that_are_alive_at_the_end_of_the_interpreter_are_released_once():
    program = (
        "import builtins, functools, sys, tensor\n"
        "def blob(name):\n"
        "    told = functools.partial(print, name)\n"
        "    return tensor.from_blob(bytearray(8), (2,), 'float32', on_release=told)\n"
        "mine = blob('mine')\n"
        "builtins.kept = blob('kept')\n"
        "sys.modules['aside'] = blob('aside')\n"
        "tensor.within = blob('within')\n"
    )
    assert sorted(output_of(program).split()) == ["aside", "kept", "mine", "within"]


def test_any_thread_may_release_the_memory_last():
    threads = []
    x = tensor.from_blob(numbers(), (4,), "float32", on_release=lambda: threads.append(threading.get_ident()))
    other = threading.Thread(target=x.dispose)
    other.start()
    other.join()
    # A free-threaded Python frees an object on the thread that created it.
    is_free_threaded = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))
    assert threads == [threading.get_ident() if is_free_threaded else other.ident]


def test_a_closed_or_released_source_is_an_error():
    view = memoryview(bytearray(4))
    view.release()
    mapped = mmap.mmap(-1, 4)
    mapped.close()
    for source in (view, mapped):
        with pytest.raises(ValueError, match=r"released|closed"):
            tensor.from_blob(source, (1,), "float32")


def test_two_blobs_over_one_buffer_see_each_other_and_release_each_their_own():
    released, other = Calls(), Calls()
    source = numbers()
    x = tensor.from_blob(source, (4,), "float32", on_release=released)
    y = tensor.from_blob(source, (2,), "float32", offset=8, on_release=other)
    x[2] = 9.0
    assert y.tolist() == [9.0, 3.0]
    x.dispose()
    assert (released.count, other.count) == (1, 0)
    with pytest.raises(BufferError):
        source.clear()
    y.dispose()
    source.clear()


def test_a_scope_counts_the_bytes_that_are_borrowed():
    with new_dispose_scope() as scope:
        tensors = [tensor.from_blob(numbers(100), (10,), "float32")]
        tensors.append(tensors[0][2:])
        assert scope.nbytes == 40


def test_borrowed_bytes_are_in_the_statistics_until_they_are_given_back():
    before = memory.statistics().bytes_external

    def borrowed() -> int:
        return memory.statistics().bytes_external - before

    x = tensor.from_blob(bytes(100), (2, 3), "float32", strides=(4, 1), offset=8)
    y = tensor.from_address(address_of(np.zeros(4)), (4,), "float64")
    assert borrowed() == 28 + 32  # from the first byte to the last
    view = x[1:]
    x.dispose()
    assert borrowed() == 28 + 32
    view[0, 0] = 1.0  # over read-only memory: a private copy from now on
    assert borrowed() == 32
    with pytest.raises(ValueError, match="the buffer has 100"):
        tensor.from_blob(bytes(100), (101,), "uint8")
    del y
    assert borrowed() == 0


def address_of(values: np.ndarray) -> int:
    return values.__array_interface__["data"][0]


def test_from_address_shares_memory_and_keeps_its_owner_until_the_last_release():
    values = np.arange(6.0)
    released = Calls()
    before = sys.getrefcount(values)
    x = tensor.from_address(
        address_of(values), (3,), "float64", strides=(2,), owner=values, on_release=released
    )
    assert sys.getrefcount(values) == before + 1
    view = x[1:]
    x[1] = 9.0
    values[4] = 8.0
    assert (values[2], view.tolist()) == (9.0, [9.0, 8.0])
    x.dispose()
    assert released.count == 0
    view.dispose()
    assert (released.count, sys.getrefcount(values)) == (1, before)


@pytest.mark.parametrize(
    ("address", "shape", "message"),
    [
        (0, (1,), "address must be above 0, not 0"),
        (-8, (1,), "address must be above 0, not -8"),
        (2**64 - 4, (2,), "exceeds the address space"),
        (2**70, (1,), "exceeds the address space"),
        (64, (2**62,), "more bytes than any memory"),
        (64, (-1,), "not a shape"),
    ],
)
def test_from_address_refuses_invalid_addresses(address, shape, message):
    released = Calls()
    with pytest.raises(ValueError, match=message):
        tensor.from_address(address, shape, "float64", on_release=released)
    assert released.count == 0
