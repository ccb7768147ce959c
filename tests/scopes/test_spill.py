"""The spill file: bytes come back as they were, space is used again, and no fault leaves a file behind."""

from __future__ import annotations

import errno
import gc
import os
import pickle
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scopes import SpillError
from scopes._shared.spill import Spilled, SpillFile
from tests.interrupts import interrupted_at

PAGE = 4096


def bytes_of(seed: int, nbytes: int) -> bytes:
    return random.Random(seed).randbytes(nbytes)


def read(spilled: Spilled) -> bytes:
    back = bytearray(spilled.nbytes)
    spilled.read_into(back)
    return bytes(back)


@pytest.mark.parametrize("nbytes", [0, 1, PAGE, 3 * 2**20 + 5])
def test_bytes_are_restored_unchanged(tmp_path: Path, nbytes: int) -> None:
    with SpillFile(tmp_path) as file:
        before, after = file.write(b"before"), file.write(bytes_of(0, nbytes))
        assert (read(before), read(after)) == (b"before", bytes_of(0, nbytes))
        figures = file.statistics()
    assert (figures.bytes_written, figures.bytes_read) == (6 + nbytes, 6 + nbytes)


@given(st.lists(st.tuples(st.integers(1, 5 * PAGE), st.booleans()), max_size=60))
def test_values_never_overlap_and_figures_count_the_live_ones(moves: list[tuple[int, bool]]) -> None:
    with SpillFile(tempfile.gettempdir()) as file:
        living: list[tuple[int, int, Spilled]] = []
        for seed, (nbytes, is_free) in enumerate(moves):
            if is_free and living:
                living.pop(nbytes % len(living))[2].free()
            else:
                living.append((seed, nbytes, file.write(bytes_of(seed, nbytes))))
        assert all(read(spilled) == bytes_of(seed, nbytes) for seed, nbytes, spilled in living)
        assert file.statistics().bytes_held == sum(-(-nbytes // PAGE) * PAGE for _, nbytes, _ in living)


def test_freed_space_is_used_again(tmp_path: Path) -> None:
    with SpillFile(tmp_path) as file:
        for _ in range(10):
            step = [file.write(bytes(nbytes)) for nbytes in (PAGE, 3 * PAGE, 2 * PAGE)]
            while step:
                step.pop().free()
        assert (file.statistics().bytes_held, file.statistics().bytes_in_file) == (0, 6 * PAGE)


def test_garbage_frees_its_space(tmp_path: Path) -> None:
    with SpillFile(tmp_path) as file:
        file.write(bytes(PAGE))
        assert file.statistics().bytes_held == 0


def test_the_folder_shows_no_file(tmp_path: Path) -> None:
    with SpillFile(tmp_path) as file:
        kept = file.write(bytes(PAGE))
        if os.name == "posix":
            assert list(tmp_path.iterdir()) == []
    assert list(tmp_path.iterdir()) == []
    assert file.is_closed
    for use in (lambda: read(kept), lambda: file.write(b"more")):
        with pytest.raises(ValueError, match="this spill file is closed and its contents are lost"):
            use()


def test_threads_write_and_read_at_once(tmp_path: Path) -> None:
    wrong: list[int] = []

    def work(seed: int) -> None:
        for i in range(50):
            data = bytes_of(seed * 100 + i, 1 + i * 997)
            if read(file.write(data)) != data:
                wrong.append(i)

    with SpillFile(tmp_path) as file:
        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert (wrong, file.statistics().bytes_held) == ([], 0)


def test_a_folder_that_is_missing_is_named() -> None:
    with pytest.raises(
        SpillError, match=r"no spill file can be created in '/no/such' .*: name a folder"
    ) as error:
        SpillFile("/no/such")
    assert (error.value.errno, error.value.folder) == (errno.ENOENT, "/no/such")
    assert isinstance(error.value, OSError)


def test_the_error_can_be_pickled() -> None:
    error = pickle.loads(pickle.dumps(SpillError(errno.ENOSPC, "full", "/disk")))
    assert (error.errno, error.strerror, error.folder) == (errno.ENOSPC, "full", "/disk")


def test_mistakes_say_what_to_write_instead(tmp_path: Path) -> None:
    with SpillFile(tmp_path) as file:
        spilled = file.write(b"abcd")
        with pytest.raises(ValueError, match="4 bytes can't be read into a buffer of 3 bytes"):
            spilled.read_into(bytearray(3))
        with pytest.raises(ValueError, match="read-only buffer of 4 bytes"):
            spilled.read_into(b"abcd")
        with pytest.raises(ValueError, match="takes contiguous bytes: copy them first"):
            file.write(memoryview(b"abcd")[::2])
        spilled.free()
        with pytest.raises(ValueError, match="freed in the spill file: read them before"):
            read(spilled)


def test_changed_bytes_in_a_spill_file_raise_an_error_until_they_are_restored(tmp_path: Path) -> None:
    data = bytes_of(1, 3 * PAGE)
    with SpillFile(tmp_path) as file:
        spilled = file.write(data)
        descriptor = file._file
        descriptor.seek(PAGE)
        descriptor.write(bytes([data[PAGE] ^ 1]))
        with pytest.raises(
            SpillError, match=r"12 KiB can't be read back .* not those that were written"
        ) as error:
            read(spilled)
        assert error.value.errno == errno.EIO
        descriptor.seek(PAGE)
        descriptor.write(data[PAGE : PAGE + 1])
        assert read(spilled) == data


def test_a_file_that_is_cut_short_is_an_error(tmp_path: Path) -> None:
    with SpillFile(tmp_path) as file:
        spilled = file.write(bytes(2 * PAGE))
        file._file.truncate(PAGE)
        with pytest.raises(SpillError, match="the file is shorter than what was written"):
            read(spilled)


def test_a_read_that_the_system_refuses_is_an_error(tmp_path: Path) -> None:
    with SpillFile(tmp_path) as file:
        spilled = file.write(bytes(PAGE))
        descriptor = file._file.fileno()
        saved = os.dup(descriptor)
        other = os.open(tmp_path, os.O_RDONLY)  # reading a folder fails
        os.dup2(other, descriptor)
        with pytest.raises(SpillError, match=r"can't be read back .* \(Is a directory\)"):
            read(spilled)
        os.dup2(saved, descriptor)
        assert read(spilled) == bytes(PAGE)
        os.close(saved)
        os.close(other)


FULL = """
import errno, sys
from scopes import SpillError
from scopes._shared.spill import SpillFile

{before}
with SpillFile(sys.argv[1]) as file:
    kept = file.write(bytes([7]) * 600_000)
    for _ in range(3):
        try:
            file.write(bytes(600_000))
        except SpillError as error:
            assert error.errno in (errno.ENOSPC, errno.EFBIG), error
            assert "the disk is full, or the file reached a size limit" in str(error), error
            assert "585.9 KiB can't be written" in str(error), error
        else:
            sys.exit("it was written")
    assert file.statistics().bytes_held == 602_112
    small = file.write(bytes(100_000))
    for spilled in (kept, small):
        back = bytearray(spilled.nbytes)
        spilled.read_into(back)
    kept.free()
    again = file.write(bytes(500_000))
"""


def test_a_file_at_its_size_limit_leaves_everything_unchanged(tmp_path: Path) -> None:
    pytest.importorskip("resource", reason="needs limits of processes")
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, 1_000_000))"
    subprocess.run([sys.executable, "-c", FULL.format(before=limit), str(tmp_path)], check=True)
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_leaves_everything_unchanged(tmp_path: Path) -> None:
    on_small_disk(tmp_path, FULL.format(before=""))


def on_small_disk(folder: Path, program: str) -> None:
    """Run `program`, whose argument is a folder on a disk of 1 MB, and see that no space is lost."""
    unshare = shutil.which("unshare")
    mount = f'mount -t tmpfs -o size=1000k tmpfs "{folder}"'
    if (
        unshare is None
        or subprocess.run([unshare, "-Urm", "sh", "-c", mount], capture_output=True).returncode
    ):
        pytest.skip("no file system can be mounted here")
    script = (
        f'{mount} && "$0" -c "$1" "{folder}" && test -z "$(ls -A "{folder}")" && df --output=used "{folder}"'
    )
    done = subprocess.run(
        [unshare, "-Urm", "sh", "-c", script, sys.executable, program], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[-1] == "0"


KILLED = """
import sys
from scopes._shared.spill import SpillFile

file = SpillFile(sys.argv[1])
kept = []
while True:
    kept.append(file.write(bytes(200_000)))
    if len(kept) == 20:
        print("spilling", flush=True)
    if len(kept) > 20:
        kept.pop(0)
"""


@pytest.mark.skipif(os.name != "posix", reason="needs SIGKILL")
def test_a_killed_process_leaves_no_file(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", KILLED, str(tmp_path)], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"spilling\n"
        child.kill()
    assert child.returncode == -signal.SIGKILL
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_is_refused(tmp_path: Path) -> None:
    program = """
import os, sys
from scopes._shared.spill import SpillFile
with SpillFile(sys.argv[1]) as file:
    spilled = file.write(b"parent")
    if not os.fork():
        try:
            file.write(b"child")
        except RuntimeError as error:
            os._exit("process that forked this one: open one in each" not in str(error))
        os._exit(2)
    _, status = os.wait()
    back = bytearray(6)
    spilled.read_into(back)
    # A status of 512 would be an exit code of 0.
    sys.exit(os.waitstatus_to_exitcode(status) or back != b"parent")
"""
    subprocess.run([sys.executable, "-W", "ignore", "-c", program, str(tmp_path)], check=True)


def test_an_interrupt_at_any_call_keeps_written_values_and_leaks_no_space(tmp_path: Path) -> None:
    event, was_interrupted = 1, True
    with SpillFile(tmp_path) as file:
        kept = file.write(b"kept")
        while was_interrupted:
            was_interrupted = interrupted_at(event, lambda: file.write(bytes(2 * PAGE)))
            gc.collect()
            assert read(kept) == b"kept"
            assert file.statistics().bytes_held == PAGE
            assert file.statistics().bytes_in_file <= 3 * PAGE
            event += 1
    assert event > 10
