"""The pytest plugin, by pytest inside pytest: each marker, passing and failing, and whom a leak is put to."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import re
import tomllib
from pathlib import Path

import pytest

import disposescope.pytest_plugin as pytest_plugin
import scopes
import tensor  # noqa: F401  # pytest inside pytest forgets what it is the first to import

pytest_plugins = ["pytester"]

ROOT = Path(__file__).parents[2]
BEGINNING = """
import asyncio, gc
import pytest, scopes, tensor
from scopes import new_dispose_scope

KEPT = []

"""


@pytest.fixture
def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch):
    """Return a function that runs pytest on a file of tests, in this process or in one of its own."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]))
    for name in ("PYTEST_ADDOPTS", "DISPOSESCOPE_TRACK"):
        monkeypatch.delenv(name, raising=False)
    # Other installed plugins would import modules, change the order, or print more than what is compared.
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")

    def run(source: str, *args: str, conftest: str = "", apart: bool = False, beginning: str = BEGINNING):
        pytester.makepyfile(test_it=beginning + source)
        if conftest:
            pytester.makeconftest(beginning + conftest)
        given = ["--strict-markers", "-p", "no:cacheprovider", "-W", "error"]
        # The module that finds an editable installation is loaded before pytest.
        given += ["-W", "ignore:Module already imported so cannot be rewritten; _editable_"]
        if apart:
            return pytester.runpytest_subprocess("-p", "disposescope.pytest_plugin", *given, *args)
        # As it is loaded here; by name it could not be prepared for this process, which it is in already.
        return pytester.runpytest_inprocess(*given, *args, plugins=[pytest_plugin])

    return run


def line_of(source: str, mark: str, file: str = "test_it.py") -> str:
    """Return how a report names the line with `mark`."""
    lines = (BEGINNING + source).lstrip().splitlines()
    (number,) = [i for i, line in enumerate(lines, 1) if line.endswith(f"# {mark}")]
    return f"{file}:{number} in "


# no_tensor_leaks

CLEAN = """
@pytest.mark.no_tensor_leaks
def test_it():
    with new_dispose_scope():
        x = tensor.ones((2,))
        KEPT.append(x)
    y = tensor.ones((2,)) * 2
    y.dispose()
    cycle = [tensor.ones((2,))]
    cycle.append(cycle)
"""

LEAKING = """
@pytest.mark.no_tensor_leaks
def test_it():
    with new_dispose_scope("epoch"):
        for _ in range(3):
            with new_dispose_scope("step") as scope:
                KEPT.append(scope.detach(tensor.ones((250,))))  # large
    KEPT.append(tensor.ones((2,)))  # small
"""


def test_a_test_that_leaves_nothing_passes(run):
    run(CLEAN).assert_outcomes(passed=1)


def test_a_test_that_leaves_tensors_fails_with_their_lines_and_the_tree_of_scopes(run):
    result = run(LEAKING)
    result.assert_outcomes(passed=1, errors=1)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(
        [
            "*ERROR at teardown of test_it*",
            "test_it left 4 disposables, 2.938 KiB:",
            f"  {line_of(LEAKING, 'large')}test_it",
            "      KEPT.append(scope.detach(tensor.ones((250,))))  # large",
            "      -> 3 x Tensor, 2.93 KiB",
            f"  {line_of(LEAKING, 'small')}test_it",
            "      -> 1 x Tensor, 8 bytes",
            "  created in these scopes:",
            "    epoch: 3",
            "      step: 3",
            "    outside all scopes: 1",
            "Create it inside a dispose scope that ends *",
        ]
    )


def test_without_a_marker_nothing_is_checked(run):
    result = run(LEAKING.replace("@pytest.mark.no_tensor_leaks", ""), "-v", "--no-header")
    result.assert_outcomes(passed=1)
    said = result.stdout.str().lower()
    assert "dispose" not in said
    assert "left" not in said


def test_the_option_looks_at_all_tests(run):
    source = LEAKING.replace("@pytest.mark.no_tensor_leaks", "") + CLEAN.replace("test_it", "test_clean")
    result = run(source, "--tensor-leaks")
    result.assert_outcomes(passed=2, errors=1)
    result.stdout.fnmatch_lines(["test_it left 4 disposables*"])


def test_a_test_that_fails_anyway_is_not_judged(run):
    source = """
def test_it():
    x = tensor.ones((2,))
    assert x.sum() == 3

def test_skip():
    KEPT.append(tensor.ones((2,)))
    pytest.skip("no time")

@pytest.mark.xfail(strict=True)
def test_xfail():
    x = tensor.ones((2,))
    assert x.sum() == 3
"""
    run(source, "--tensor-leaks").assert_outcomes(failed=1, skipped=1, xfailed=1)


def test_each_parameter_is_a_test_and_parameters_themselves_are_no_leak(run):
    source = """
@pytest.mark.no_tensor_leaks
@pytest.mark.parametrize("x", [tensor.ones((2,)), tensor.ones((3,))], ids=["two", "three"])
def test_it(x):
    y = x + 1
    if len(x) == 3:
        KEPT.append(y)
"""
    result = run(source)
    result.assert_outcomes(passed=2, errors=1)
    result.stdout.fnmatch_lines(["test_it[[]three[]] left 1 disposable, 12 bytes:"])


def test_a_marker_on_a_class_covers_its_tests_and_tensors_in_self_are_no_leak(run):
    source = """
@pytest.mark.no_tensor_leaks
class TestIt:
    def setup_method(self):
        self.x = tensor.ones((2,))

    def test_self(self):
        self.y = self.x + 1

    def test_leak(self):
        KEPT.append(self.x + 1)
"""
    result = run(source)
    result.assert_outcomes(passed=2, errors=1)
    result.stdout.fnmatch_lines(["test_leak left 1 disposable, 8 bytes:"])


def test_a_test_case_that_wraps_its_methods_is_no_leak(run):
    result = run(
        """
import functools
import unittest
import tensor

class Base(unittest.TestCase):
    def __init__(self, name="runTest"):
        super().__init__(name)
        method = getattr(self, name, None)
        if method is not None:
            setattr(self, name, functools.wraps(method)(lambda: method()))

class TestIt(Base):
    def setUp(self):
        self.x = tensor.ones(3)

    def test_it(self):
        assert self.x.sum() == 3
""",
        "--tensor-leaks",
    )
    result.assert_outcomes(passed=1)


def test_tests_of_unittest_and_doctests_are_judged_too(run):
    source = '''
import unittest

class TestIt(unittest.TestCase):
    def setUp(self):
        self.x = tensor.ones((2,))

    def test_clean(self):
        self.y = self.x + 1

    def test_leak(self):
        KEPT.append(self.x + 1)

def example():
    """
    >>> import tensor
    >>> x = tensor.ones((2,))
    >>> x.tolist()
    [1.0, 1.0]
    """
'''
    result = run(source, "--tensor-leaks", "--doctest-modules")
    result.assert_outcomes(passed=3, errors=1)
    result.stdout.fnmatch_lines(["test_leak left 1 disposable, 8 bytes:"])


def test_a_scope_left_open_is_named(run):
    source = """
def test_it():
    KEPT.append(scopes.DisposeScope("forgotten"))
    KEPT.append(tensor.ones((2,)))
"""
    result = run(source, "--tensor-leaks", apart=True)
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(
        ["    forgotten: 1", "  1 owned by the scope 'forgotten', which is still open"]
    )


# Fixtures


def test_tensors_of_the_test_s_fixtures_are_disposed_with_it(run):
    source = """
@pytest.fixture
def plain():
    return tensor.ones((2,))

@pytest.fixture
def yielding():
    with new_dispose_scope():
        yield tensor.ones((2,))

@pytest.fixture
def factory():
    made = []
    def make():
        made.append(tensor.ones((2,)))
        return made[-1]
    return make

def test_it(plain, yielding, factory):
    assert (plain + yielding + factory()).sum().item() == 6
"""
    run(source, "--tensor-leaks").assert_outcomes(passed=1)


def test_a_leak_of_a_fixture_is_put_to_the_fixture(run):
    source = """
@pytest.fixture
def leaking():
    KEPT.append(tensor.ones((2,)))  # setup
    yield KEPT[-1]
    KEPT.append(tensor.ones((3,)))  # teardown

@pytest.fixture
def clean(leaking):
    yield leaking + 1

@pytest.mark.no_tensor_leaks
def test_it(clean):
    KEPT.append(tensor.ones((4,)))  # test
"""
    result = run(source)
    result.assert_outcomes(passed=1, errors=1)
    text = result.stdout.str()
    of_test = text.index("test_it left 1 disposable, 16 bytes:")
    of_fixture = text.index("fixture 'leaking' (scope: function) left 2 disposables, 20 bytes:")
    first, second = sorted([of_test, of_fixture])
    parts = {of_test: text[of_test:], of_fixture: text[of_fixture:]}
    parts[first] = text[first:second]
    assert line_of(source, "test") in parts[of_test]
    assert line_of(source, "setup") in parts[of_fixture]
    assert line_of(source, "teardown") in parts[of_fixture]
    assert "'clean'" not in text


WIDE = """
@pytest.fixture(scope="{scope}")
def model():
    return tensor.ones((10,))

class TestIt:
    @pytest.mark.no_tensor_leaks
    def test_first(self, model):
        assert (model + 1).sum().item() == 20

    @pytest.mark.no_tensor_leaks
    def test_second(self, model):
        pass

    def test_third(self, model):
        assert not model.is_invalid
"""


@pytest.mark.parametrize("scope", ["class", "module", "package", "session"])
def test_tensors_of_a_fixture_of_wider_scope_do_not_count_against_the_test(run, scope):
    run(WIDE.format(scope=scope)).assert_outcomes(passed=3)


def test_the_memory_of_a_view_is_that_of_the_fixture_that_made_it(run):
    source = """
@pytest.fixture(scope="module")
def model():
    return tensor.ones((10,))

def test_it(model):
    KEPT.append(model[2:])

def test_next(model):
    pass
"""
    result = run(source, "--tensor-leaks", apart=True)
    result.assert_outcomes(passed=2, errors=1)
    result.stdout.fnmatch_lines(["test_it left 1 disposable, 0 bytes:"])


WIDE_LEAKING = """
@pytest.fixture(scope="{scope}")
def model():
    KEPT.append(tensor.ones((10,)))  # setup
    yield KEPT[-1]
    KEPT.append(tensor.ones((5,)))  # teardown

def test_first(model):
    pass

@pytest.mark.{mark}
def test_second(model):
    pass
"""


@pytest.mark.parametrize("scope", ["module", "session"])
@pytest.mark.parametrize("apart", [False, True])
def test_a_leak_of_a_fixture_of_wider_scope_has_a_report_of_its_own(run, scope, apart):
    source = WIDE_LEAKING.format(scope=scope, mark="no_tensor_leaks")
    result = run(source, "--tensor-leaks", apart=apart)
    result.assert_outcomes(passed=2, errors=1)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(
        [
            f"*ERROR at teardown of fixture 'model' (scope: {scope})*",
            f"fixture 'model' (scope: {scope}) left 2 disposables, 60 bytes:",
            f"  {line_of(source, 'setup')}model",
            "      -> 1 x Tensor, 40 bytes",
            f"  {line_of(source, 'teardown')}model",
            "      -> 1 x Tensor, 20 bytes",
            "*ERROR test_it.py::model - fixture 'model'*",
        ]
    )
    assert "test_second" not in result.stdout.str()


PROGRESS = """
@pytest.fixture(scope="module", params=[1, 2])
def model(request):
    KEPT.append(tensor.ones((10,)))

def test_first(model):
    pass

def test_second(model):
    pass

@pytest.fixture(scope="module")
def other():
    KEPT.append(tensor.ones((10,)))

def test_third(other):
    pass
"""


@pytest.mark.parametrize("options", [(), ("-v",), ("-n", "2"), ("-v", "-n", "2")], ids=" ".join)
def test_progress_ends_at_100_percent_if_fixtures_leak(run, options):
    given = list(options)
    if "-n" in options:
        pytest.importorskip("xdist")
        given += ["-p", "xdist.plugin"]
    result = run(PROGRESS, "--tensor-leaks", *given, apart=True)
    percents = [int(percent) for percent in re.findall(r"\[ *(\d+)%\]", result.stdout.str())]
    assert percents
    assert max(percents) == 100
    assert percents == sorted(percents)
    if not options:
        result.assert_outcomes(passed=5, errors=3)
    counted = run(PROGRESS, "--tensor-leaks", *given, "-o", "console_output_style=count", apart=True)
    assert re.search(r"\[7/7\]\n", counted.stdout.str())


def test_a_fixture_set_up_by_no_watched_test_is_charged_to_no_test(run):
    run(WIDE_LEAKING.format(scope="module", mark="limit_live_tensors(0)")).assert_outcomes(passed=2)


def test_a_fixture_of_wider_scope_may_end_in_the_setup_of_a_later_test(run):
    source = """
@pytest.fixture(scope="module", params=[2, 3])
def model(request):
    KEPT.append(tensor.ones((request.param,)))
    return KEPT[-1]

def test_it(model):
    pass
"""
    result = run(source, "--tensor-leaks")
    result.assert_outcomes(passed=2, errors=2)
    result.stdout.fnmatch_lines(["* left 1 disposable, 8 bytes:", "* left 1 disposable, 12 bytes:"])


def test_leak_of_a_fixture_requested_in_the_test_is_reported_for_the_fixture(run):
    source = """
@pytest.fixture(scope="session")
def model():
    return [tensor.ones((10,))]

def test_it(request):
    request.getfixturevalue("model").append(tensor.ones((2,)))  # test

def test_other(model):
    assert len(model) == 2
"""
    result = run(source, "--tensor-leaks", apart=True)  # in this process, what records hooks keeps requests
    result.assert_outcomes(passed=2, errors=1)
    result.stdout.fnmatch_lines(
        ["test_it left 1 disposable, 8 bytes:", f"  {line_of(source, 'test')}test_it"]
    )


def test_setups_in_the_manner_of_xunit_are_named_as_they_are_written(run):
    source = """
def setup_module():
    KEPT.append(tensor.ones((2,)))

class TestIt:
    @classmethod
    def setup_class(cls):
        cls.x = tensor.ones((3,))

    def test_it(self):
        assert self.x.sum().item() == 3
"""
    result = run(source, "--tensor-leaks")
    result.assert_outcomes(passed=1, errors=2)
    result.stdout.fnmatch_lines_random(
        [
            "setup_module() of test_it left 1 disposable, 8 bytes:",
            "setup_class() of TestIt left 1 disposable, 12 bytes:",
        ]
    )


# no_tensor_growth

GROWING = """
def mean_loss(count):
    weight, total = tensor.ones((1000,), requires_grad=True), tensor.zeros(())
    for step in range(count):
        total = total + (weight * step).tanh().sum()  # grows
    return total.item()

{mark}
def test_it():
    mean_loss(100)
"""
MARK = "@pytest.mark.no_tensor_growth"


def test_test_with_a_growing_line_fails_even_if_all_tensors_are_freed_at_its_end(run):
    source = GROWING.format(mark=MARK)
    result = run(source)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            f"1 line keeps more and more: {line_of(source, 'grows')}mean_loss (*",
            "test_it has ended. It held most after * s:",
            f"* {line_of(source, 'grows')}mean_loss",
            "*total = total + (weight * step).tanh().sum()  # grows",
            "*held by total, a local of mean_loss()",
            "At the end:",
            "nothing is alive that was created while tracking was on",
            "FAILED *test_it - Failed: 1 line keeps more and more: *",
        ]
    )


def test_without_the_marker_growth_is_not_judged(run):
    run(GROWING.format(mark="@pytest.mark.no_tensor_leaks")).assert_outcomes(passed=1)


@pytest.mark.parametrize(
    ("threshold", "failed"), [("", 1), ("(threshold='100 MB')", 0), ("(threshold=1000)", 1)]
)
def test_growth_may_have_a_threshold(run, threshold, failed):
    result = run(GROWING.format(mark=MARK + threshold))
    result.assert_outcomes(failed=failed, passed=1 - failed)


def test_an_option_and_a_setting_judge_the_growth_of_all_tests(run, pytester):
    run(GROWING.format(mark=""), "--tensor-growth").assert_outcomes(failed=1)
    pytester.makeini("[pytest]\ntensor_growth = true\n")
    run(GROWING.format(mark=""), apart=True).assert_outcomes(failed=1)


def test_tensors_of_earlier_fixtures_are_no_growth_and_a_failing_test_is_not_judged(run):
    source = """
@pytest.fixture
def data():
    return [tensor.ones((1000,)) * n for n in range(200)]

def test_it(data):
    for x in data:
        x.sum().item()

def test_fails():
    kept = [tensor.ones((1000,)) * n for n in range(200)]
    assert len(kept) == 3
"""
    result = run(source, "--tensor-growth")
    result.assert_outcomes(passed=1, failed=1)
    assert "more and more" not in result.stdout.str()


@pytest.mark.parametrize("arguments", ["3", "bytes=3", "threshold='many'"])
def test_a_marker_of_growth_that_says_nothing_fails_its_test(run, arguments):
    result = run(GROWING.format(mark=f"{MARK}({arguments})"))
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines([f"*@pytest.mark.no_tensor_growth({arguments}): *"])


def test_known_growth_is_expected_to_fail(run):
    run(GROWING.format(mark=f"@pytest.mark.xfail(strict=True)\n{MARK}")).assert_outcomes(xfailed=1)


# limit_live_tensors

MANY = """
@pytest.mark.limit_live_tensors({n})
def test_it(model):
    with new_dispose_scope("all"):
        xs = [tensor.ones((2,)) for _ in range(4)]  # many
    tensor.ones((2,)).sum()

@pytest.fixture(scope="module")
def model():
    return [tensor.ones((2,)) for _ in range(10)]
"""


def test_as_many_tensors_as_the_limit_allows_pass(run):
    run(MANY.format(n=4)).assert_outcomes(passed=1)


def test_one_tensor_more_than_the_limit_fails_with_the_lines_of_those_alive(run):
    source = MANY.format(n=3)
    result = run(source)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "limit_live_tensors allows 3 tensors at the same time. The peak of the test was 4.",
            f"The limit was exceeded at {line_of(source, 'many')}*: xs = *",
            "Alive at that moment: 4 disposables, 32 bytes:",
            f"  {line_of(source, 'many')}*",
            "      -> 4 x Tensor, 32 bytes",
            "    all: 4",
        ]
    )


def test_a_passed_limit_says_which_figure_is_the_peak_and_which_that_of_the_moment(run):
    source = """
@pytest.mark.limit_live_tensors(3)
def test_it():
    xs = [tensor.ones((2,)) for _ in range(5)]
"""
    result = run(source)
    result.stdout.fnmatch_lines(
        [
            "limit_live_tensors allows 3 tensors at the same time. The peak of the test was 5.",
            "The limit was exceeded at *",
            "Alive at that moment: 4 disposables, 32 bytes:",
        ]
    )


def test_a_limit_counts_live_tensors_and_not_created_ones(run):
    source = """
@pytest.mark.limit_live_tensors(2)
def test_it():
    x = tensor.ones((2,))
    for _ in range(100):
        x = x + 1
"""
    run(source).assert_outcomes(passed=1)


def test_the_nearest_limit_holds(run):
    source = """
@pytest.mark.limit_live_tensors(0)
class TestIt:
    @pytest.mark.limit_live_tensors(1)
    def test_one(self):
        tensor.ones((2,))

    def test_none(self):
        tensor.ones((2,))
"""
    run(source).assert_outcomes(passed=1, failed=1)


# limit_tensor_memory

LARGE = """
@pytest.mark.limit_tensor_memory({size!r})
def test_it(model):
    xs = [tensor.ones((25_000,)) for _ in range(4)]  # many

@pytest.fixture(scope="module")
def model():
    return tensor.ones((1_000_000,))
"""


@pytest.mark.parametrize("size", ["400 kB", 400_000, "0.5 MB"])
def test_as_much_memory_as_the_limit_allows_passes(run, size):
    run(LARGE.format(size=size)).assert_outcomes(passed=1)


def test_more_memory_than_the_limit_fails_with_the_lines_that_held_it(run):
    source = LARGE.format(size="300 kB")
    result = run(source)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "limit_tensor_memory allows 293 KiB at the same time. The peak of the test was 390.6 KiB.",
            f"The limit was exceeded at {line_of(source, 'many')}*: xs = *",
            "Alive at that moment: 4 disposables, 390.6 KiB:",
            "      -> 4 x Tensor, 390.6 KiB",
        ]
    )


def test_the_memory_of_graphs_counts_though_no_tensor_holds_it(run):
    source = """
@pytest.mark.limit_tensor_memory("1 MB")
def test_it():
    w = tensor.ones((25_000,), requires_grad=True)
    losses = []
    for _ in range(10):
        losses.append((w * 0.5).exp().sum())  # losses
"""
    result = run(source)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "limit_tensor_memory allows 976.6 KiB at the same time. *",
            f"  {line_of(source, 'losses')}test_it",
        ]
    )


def test_the_memory_inside_one_operation_counts_too(run):
    source = """
from tensor import memory

@pytest.mark.limit_tensor_memory("1 MB")
def test_it():
    x = tensor.ones((200_000,))
    with tensor.no_grad():
        with memory.measure() as block:
            tensor.softmax(x, dim=0)
    KEPT.append(block.peak_bytes_change)
"""
    result = run(source.replace("tensor.softmax(x, dim=0)", "tensor.concat([x, x])"))
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["limit_tensor_memory allows * was 2.289 MiB."])


def test_memory_is_measured_from_where_tensor_is_imported_if_that_is_in_the_test(run):
    source = """
import pytest

@pytest.mark.limit_tensor_memory("{size}")
def test_it():
    import tensor

    tensor.ones((100_000,))
"""
    run(source.format(size="400 kB"), apart=True, beginning="").assert_outcomes(passed=1)
    result = run(source.format(size="399 kB"), apart=True, beginning="")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["limit_tensor_memory allows * was 390.6 KiB."])


# Markers that say nothing


@pytest.mark.parametrize(
    ("mark", "error"),
    [
        (
            "limit_live_tensors",
            "limit_live_tensors(): it requires one integer of at least 0: write *tensors(10)",
        ),
        ("limit_live_tensors(-1)", "limit_live_tensors(-1): it requires one integer *"),
        ("limit_live_tensors(True)", "limit_live_tensors(True): it requires one integer *"),
        ("limit_live_tensors('3')", "limit_live_tensors('3'): it requires one integer *"),
        ("limit_live_tensors(1, 2)", "limit_live_tensors(1, 2): it requires one integer *"),
        ("limit_live_tensors(n=1)", "limit_live_tensors(n=1): it requires one integer *"),
        ("limit_tensor_memory", 'limit_tensor_memory(): it requires one size: write *memory("10 MB")'),
        ("limit_tensor_memory('10 XB')", "limit_tensor_memory('10 XB'): the size: '10 XB' is not a size: *"),
        ("limit_tensor_memory(1.5)", 'limit_tensor_memory(1.5): the size: 1.5 is not a size: *("10 MB")'),
        ("no_tensor_leaks(3)", "no_tensor_leaks(3): its only argument is threshold: write *"),
        ("no_tensor_leaks(strict=True)", "no_tensor_leaks(strict=True): its only argument is threshold: *"),
    ],
)
def test_an_invalid_marker_fails_the_test_and_says_what_to_write(run, mark, error):
    result = run(f"@pytest.mark.{mark}\ndef test_it():\n    1 / 0\n")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines([f"@pytest.mark.{error}"])


def test_the_markers_are_listed(run):
    text = run("", "--markers").stdout.str()
    for name in ("no_tensor_leaks(threshold=0):", "limit_live_tensors(n):", "limit_tensor_memory(size):"):
        assert f"@pytest.mark.{name}" in text


# dispose_statistics


def test_the_fixture_gives_figures_since_the_test_began(run):
    source = """
KEPT.append(tensor.ones((2,)))

@pytest.fixture(autouse=True)
def model():
    return tensor.ones((2,))

def test_it(dispose_statistics):
    assert dispose_statistics.live_count == 0
    with new_dispose_scope() as scope:
        x = scope.detach(tensor.ones((2,)))
        scope.attach(x)
        y = tensor.ones((2,))
        assert dispose_statistics.live_count == 2
    z = tensor.ones((2,))
    z.dispose()
    assert str(dispose_statistics) == (
        "live_count: 0; created_outside_scope_count: 1; disposed_outside_scope_count: 1; "
        "created_in_scope_count: 2; disposed_in_scope_count: 2; attached_to_scope_count: 1; "
        "detached_from_scope_count: 1; finalized_count: 0"
    )

def test_next(dispose_statistics):
    assert dispose_statistics.snapshot() == scopes.DisposeStatistics()
    assert not scopes.is_tracking()
"""
    run(source).assert_outcomes(passed=2)


# With others


def test_workers_of_xdist_report_tests_and_fixtures(run):
    pytest.importorskip("xdist")
    source = """
@pytest.mark.parametrize("i", range(6))
def test_it(i, model):
    if i == 4:
        KEPT.append(tensor.ones((2,)))
"""
    conftest = """
@pytest.fixture(scope="session")
def model():
    KEPT.append(tensor.ones((10,)))
    return KEPT[-1]
"""
    result = run(source, "--tensor-leaks", "-p", "xdist.plugin", "-n", "2", conftest=conftest, apart=True)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    outcomes = result.parseoutcomes()
    # Each worker that had a test has a fixture of its own.
    assert outcomes["passed"] == 6
    assert outcomes["errors"] in (2, 3)
    result.stdout.fnmatch_lines(
        [
            "test_it[[]4[]] left 1 disposable, 8 bytes:",
            "*ERROR at teardown of fixture 'model' (scope: session)*",
            "fixture 'model' (scope: session) left 1 disposable, 40 bytes:",
            "  conftest.py:* in model",
            "ERROR conftest.py::model*",
        ]
    )


def test_workers_of_xdist_pass_when_nothing_leaks(run):
    pytest.importorskip("xdist")
    result = run(WIDE.format(scope="session"), "--tensor-leaks", "-p", "xdist.plugin", "-n", "2", apart=True)
    result.assert_outcomes(passed=3)


def test_code_on_an_event_loop_is_judged(run):
    source = """
async def work(leak):
    with new_dispose_scope():
        x = tensor.ones((2,))
        await asyncio.sleep(0)
        tasks = [asyncio.create_task(inner(x, leak)) for _ in range(2)]
        await asyncio.gather(*tasks)

async def inner(x, leak):
    with new_dispose_scope("task") as scope:
        y = x + 1
        await asyncio.sleep(0)
        if leak:
            KEPT.append(scope.detach(y + 1))

@pytest.mark.no_tensor_leaks
@pytest.mark.limit_live_tensors(5)
@pytest.mark.parametrize("leak", [False, True])
def test_it(leak):
    asyncio.run(work(leak))
"""
    result = run(source)
    result.assert_outcomes(passed=2, errors=1)
    result.stdout.fnmatch_lines(["test_it[[]True[]] left 2 disposables, 16 bytes:", "      task: 2"])


def test_tests_of_pytest_asyncio_are_judged(run, pytester):
    pytest.importorskip("pytest_asyncio")
    source = """
import pytest_asyncio

@pytest_asyncio.fixture
async def data():
    await asyncio.sleep(0)
    yield tensor.ones((2,))

@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def model():
    await asyncio.sleep(0)
    KEPT.append(tensor.ones((10,)))
    yield KEPT[-1]

@pytest.mark.asyncio
@pytest.mark.no_tensor_leaks
@pytest.mark.limit_live_tensors(3)
async def test_clean(data, model):
    await asyncio.sleep(0)
    assert (data + 1).sum().item() == 4

@pytest.mark.asyncio
@pytest.mark.no_tensor_leaks
async def test_leak(data):
    await asyncio.sleep(0)
    KEPT.append(data + 1)
"""
    pytester.makeini("[pytest]\nasyncio_default_fixture_loop_scope = function")
    result = run(source, "-p", "pytest_asyncio.plugin", apart=True)
    result.assert_outcomes(passed=2, errors=2)
    result.stdout.fnmatch_lines_random(
        [
            "test_leak left 1 disposable, 8 bytes:",
            "fixture 'model' (scope: module) left 1 disposable, 40 bytes:",
        ]
    )


def test_a_leak_of_a_fixture_counts_for_maxfail_and_is_in_the_file_for_other_programs(run, pytester):
    run(WIDE_LEAKING.format(scope="module", mark="no_tensor_leaks"), "--tensor-leaks", "--junitxml=out.xml")
    text = (pytester.path / "out.xml").read_text(encoding="utf-8")
    assert re.search(r'errors="1"', text)
    assert "left 2 disposables" in text


def test_an_interrupted_test_leaves_tracking_off(run):
    source = """
def test_it():
    KEPT.append(tensor.ones((2,)))
    raise KeyboardInterrupt
"""
    with pytest.raises(KeyboardInterrupt):
        run(source, "--tensor-leaks")
    assert not scopes.is_tracking()


def test_tracking_that_a_test_starts_itself_continues(run):
    source = """
@pytest.mark.no_tensor_leaks
def test_it():
    with scopes.track():
        start = scopes.snapshot()
        x = tensor.ones((2,))
        assert scopes.leaks(since=start).count == 1
    assert scopes.is_tracking()

def test_next():
    assert not scopes.is_tracking()
"""
    run(source).assert_outcomes(passed=2)


def test_the_plugin_imports_neither_tensor_nor_numpy(run):
    source = """
import sys
import pytest

@pytest.mark.no_tensor_leaks
@pytest.mark.limit_live_tensors(0)
@pytest.mark.limit_tensor_memory(0)
def test_it(dispose_statistics):
    assert dispose_statistics.live_count == 0
    assert {"numpy", "tensor", "nn"} & set(sys.modules) == set()
"""
    run(source, apart=True, beginning="").assert_outcomes(passed=1)


def test_the_plugin_is_installed_with_the_package_by_its_name():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    plugins = project["entry-points"]["pytest11"]
    assert plugins == {"disposescope": "disposescope.pytest_plugin"}
    assert importlib.util.find_spec(plugins["disposescope"]) is not None


# Scopes left open, thresholds, settings, known leaks, a line for each test.


def test_a_scope_left_open_fails_its_test_and_is_closed_for_the_next(run):
    source = """
@pytest.mark.no_tensor_leaks
def test_forgets():
    new_dispose_scope("forgotten")

@pytest.mark.no_tensor_leaks
def test_next():
    assert scopes.current_dispose_scope() is None
"""
    result = run(source)
    result.assert_outcomes(passed=2, errors=1)
    result.stdout.fnmatch_lines(
        [
            "*ERROR at teardown of test_forgets*",
            "the scope 'forgotten' is still open after the test, and owns 0 disposables",
        ]
    )


def test_a_scope_of_a_wider_fixture_is_no_tests(run):
    source = """
@pytest.fixture(scope="module")
def around():
    with new_dispose_scope("module") as scope:
        yield scope

@pytest.mark.no_tensor_leaks
def test_one(around):
    assert scopes.current_dispose_scope() is around

@pytest.mark.no_tensor_leaks
def test_two(around):
    assert not around.is_disposed
"""
    run(source).assert_outcomes(passed=2)


LEFT = """
@pytest.mark.no_tensor_leaks{threshold}
def test_it():
    KEPT.append(tensor.ones((250,)))
"""


@pytest.mark.parametrize(
    ("threshold", "options", "settings", "errors"),
    [
        ("", [], "", 1),
        ("(threshold='1 kB')", [], "", 0),
        ("(threshold='999 B')", [], "", 1),
        ("", ["--tensor-leak-threshold", "1 kB"], "", 0),
        ("", [], "tensor_leak_threshold = 1 kB", 0),
        ("(threshold='10 B')", ["--tensor-leak-threshold", "1 kB"], "", 1),
    ],
)
def test_up_to_a_threshold_may_be_left(run, pytester, threshold, options, settings, errors):
    pytester.makeini(f"[pytest]\n{settings}\n")
    run(LEFT.format(threshold=threshold), *options).assert_outcomes(passed=1, errors=errors)


def test_a_setting_watches_all_tests(run, pytester):
    pytester.makeini("[pytest]\ntensor_leaks = true\n")
    run("def test_it():\n    KEPT.append(tensor.ones((2,)))\n", apart=True).assert_outcomes(
        passed=1, errors=1
    )


KNOWN = """
@pytest.mark.xfail(strict={strict}, reason="issue 7")
@pytest.mark.no_tensor_leaks
def test_it():
    {body}
"""


@pytest.mark.parametrize("strict", [True, False])
def test_a_known_leak_is_expected_to_fail_and_reported_once(run, strict):
    result = run(KNOWN.format(strict=strict, body="KEPT.append(tensor.ones((2,)))"), "-rx")
    result.assert_outcomes(xfailed=1)
    assert "1 xfailed in" in result.stdout.str()
    assert "XFAIL at teardown of test_it.py::test_it - issue 7" in result.stdout.str()


def test_a_known_leak_that_is_fixed_is_reported_once(run):
    result = run(KNOWN.format(strict=True, body="pass"))
    result.assert_outcomes(errors=1)
    assert "[XPASS(strict)] issue 7" in result.stdout.str()
    run(KNOWN.format(strict=False, body="pass")).assert_outcomes(xpassed=1)


def test_a_test_that_is_expected_to_fail_in_its_body_does(run):
    run(KNOWN.format(strict=True, body="raise ValueError")).assert_outcomes(xfailed=1)


def test_known_leaks_are_counted_once_by_xdist_too(run):
    pytest.importorskip("xdist")
    source = KNOWN.format(strict=True, body="KEPT.append(tensor.ones((2,)))")
    run(source, "-p", "xdist.plugin", "-n", "1", apart=True).assert_outcomes(xfailed=1)


def test_a_line_for_each_test_on_request(run):
    source = """
def test_one():
    x = tensor.ones((100_000,)) * 2

def test_two():
    KEPT.append(tensor.ones((250,)))
"""
    result = run(source, "--tensor-memory", apart=True)
    result.assert_outcomes(passed=2)
    text = result.stdout.str()
    assert re.search(r"test_it.py::test_one: 2 created, at most \d\S* KiB live, 0 left \(0 bytes\)", text)
    assert re.search(r"test_it.py::test_two: 1 created, .* 1 left \(1000 bytes\)", text)
