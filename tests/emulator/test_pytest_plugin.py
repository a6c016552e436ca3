"""The plugin lowers a model of the test's own module, and tells a change of it from the baseline."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MODULE = """
    import torch

    class Net(torch.nn.Module):
        def forward(self, x):
            return torch.relu(x * {factor} + 1.0)

    def make():
        torch.manual_seed(0)
        return Net(), (torch.randn(1, 8, 4),)

    def test_net(qnndbg_check):
        qnndbg_check(make, "net")
"""

pytest_plugins = ["pytester"]


@pytest.fixture
def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    return pytester


def test_lowering_against_its_baseline(run: pytest.Pytester) -> None:
    plugin = ("-p", "qnndbg.pytest_plugin")
    run.makepyfile(test_it=MODULE.format(factor=2.0))
    run.runpytest_subprocess(*plugin, "--qnndbg-update").assert_outcomes(passed=1)
    run.runpytest_subprocess(*plugin).assert_outcomes(passed=1)
    run.makepyfile(test_it=MODULE.format(factor=60000.0))  # beyond what half floats hold
    result = run.runpytest_subprocess(*plugin)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*regressed: *", "*the models differ before any pass*", "*output 0: *"])
