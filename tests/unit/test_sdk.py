"""Finding an SDK: on directories that look like one, with no library loaded and no package imported."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from qnndbg.errors import SdkError
from qnndbg.execute.sdk import HOST, LIBRARIES, Sdk, find_sdk


def fill(folder: Path) -> Path:
    folder.mkdir(parents=True)
    for name in LIBRARIES:
        (folder / name).touch()
    return folder


@pytest.fixture
def sdk_root(tmp_path: Path) -> Path:
    root = tmp_path / "qairt" / "2.49.40"
    fill(root / HOST)
    return root


@pytest.fixture
def no_package(monkeypatch: pytest.MonkeyPatch) -> None:
    """An import path without installed packages; those imported already stay."""
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if "site-packages" not in entry])


@pytest.fixture
def package(tmp_path: Path, no_package: None, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package onnxruntime_qnn that must not be imported."""
    folder = fill(tmp_path / "site" / "onnxruntime_qnn")
    (folder / "__init__.py").write_text("raise AssertionError('imported')")
    monkeypatch.setattr(sys, "path", [str(folder.parent), *sys.path])
    return folder


def test_explicit_path_comes_first(sdk_root: Path, package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = Sdk(sdk_root, sdk_root / HOST, "path")
    assert find_sdk(sdk_root, {"QNN_SDK_ROOT": "/elsewhere"}) == expected
    monkeypatch.chdir(sdk_root.parent)
    assert find_sdk(sdk_root.name, {}) == expected


def test_variable_comes_before_the_package(sdk_root: Path, package: Path) -> None:
    assert find_sdk(None, {"QNN_SDK_ROOT": str(sdk_root)}) == Sdk(sdk_root, sdk_root / HOST, "QNN_SDK_ROOT")


@pytest.mark.parametrize("unset", [{}, {"QNN_SDK_ROOT": ""}])
def test_package_is_seen_through_one_link(unset: dict[str, str], package: Path, tmp_path: Path) -> None:
    sdk = find_sdk(None, {"XDG_CACHE_HOME": str(tmp_path / "cache"), **unset})
    assert sdk.source == "pip"
    assert sdk.root.is_relative_to(tmp_path / "cache" / "qnndbg")
    assert sdk.lib == sdk.root / HOST
    assert sdk.lib.readlink() == package
    assert sorted(path.name for path in sdk.lib.glob("*.so")) == sorted(LIBRARIES)


def test_link_is_kept_per_package_and_mended(
    package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environ = {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    first = find_sdk(None, environ)
    first.lib.unlink()
    first.lib.symlink_to("/nowhere")
    assert find_sdk(None, environ) == first
    assert first.lib.readlink() == package

    other = fill(tmp_path / "other" / "onnxruntime_qnn")
    (other / "__init__.py").touch()
    monkeypatch.setattr(sys, "path", [str(other.parent), *sys.path])
    second = find_sdk(None, environ)
    assert second.root != first.root
    assert (first.lib.readlink(), second.lib.readlink()) == (package, other)


def test_processes_may_make_the_link_at_once(package: Path, tmp_path: Path) -> None:
    script = (
        "import sys; sys.path[:] = eval(sys.argv[1]); from qnndbg.execute.sdk import find_sdk\n"
        "sys.stdin.read()\n"
        "for _ in range(200):\n"
        "    sdk = find_sdk(None, {'XDG_CACHE_HOME': sys.argv[2]})\n"
        "    assert (sdk.lib / 'libQnnHtp.so').exists()\n"
    )
    path = repr([*sys.path, *site_packages()])
    command = [sys.executable, "-c", script, path, str(tmp_path / "cache")]
    processes = [subprocess.Popen(command, stdin=subprocess.PIPE) for _ in range(4)]
    for process in processes:
        assert process.stdin is not None
        process.stdin.close()  # all begin
    assert [process.wait(60) for process in processes] == [0, 0, 0, 0]
    (root,) = (tmp_path / "cache" / "qnndbg" / "sdk").iterdir()
    assert [path.name for path in root.rglob("*")] == ["lib", HOST.name]  # no scratch is left


def site_packages() -> list[str]:
    import msgspec

    return [str(Path(msgspec.__file__).parent.parent)]


def test_path_that_is_none_hints_at_one_near_by(sdk_root: Path) -> None:
    for near in (sdk_root.parent, sdk_root / "lib", sdk_root / HOST):
        with pytest.raises(SdkError) as caught:
            find_sdk(near, {})
        assert caught.value.fact == f"{near} is no QNN SDK: there is no {HOST / LIBRARIES[0]} in it"
        assert caught.value.hint == f"{sdk_root} is one"


def test_path_that_is_none_says_what_is_looked_for(tmp_path: Path, sdk_root: Path) -> None:
    (sdk_root / HOST / LIBRARIES[1]).unlink()
    with pytest.raises(SdkError) as caught:
        find_sdk(sdk_root, {})
    assert caught.value.fact.endswith("there is no lib/x86_64-linux-clang/libQnnHtp.so in it")
    assert caught.value.hint.startswith(
        "give the directory that contains lib/x86_64-linux-clang/libQnnHtp.so"
    )


def test_variable_without_libraries_is_refused_by_name(package: Path) -> None:
    with pytest.raises(SdkError, match="QNN_SDK_ROOT is /nowhere, which is no QNN SDK") as caught:
        find_sdk(None, {"QNN_SDK_ROOT": "/nowhere"})
    assert caught.value.exit_code == 4


def test_nothing_found(no_package: None) -> None:
    with pytest.raises(SdkError, match="no QNN SDK was found") as caught:
        find_sdk(None, {})
    assert 'pip install "qnndbg[qnn]"' in caught.value.hint


def test_package_of_another_platform(package: Path) -> None:
    (package / "libQnnHtp.so").unlink()
    with pytest.raises(SdkError, match=r"onnxruntime-qnn has no libQnnHtp\.so") as caught:
        find_sdk(None, {})
    assert "Linux on x86-64 only" in caught.value.hint


def test_cache_that_cannot_be_written(package: Path, tmp_path: Path) -> None:
    (tmp_path / "cache").touch()  # a file where a directory must be: it stops root too
    with pytest.raises(SdkError, match="the link to the QNN libraries cannot be made") as caught:
        find_sdk(None, {"XDG_CACHE_HOME": str(tmp_path / "cache")})
    assert "XDG_CACHE_HOME" in caught.value.hint
