"""Config files: what may change when a run goes on, and odd ones in one clear line."""

from pathlib import Path

import pytest

from unstale.cli.config import read_flags, save_config
from unstale.cli.main import main
from unstale.cli.options import TrainFlags
from unstale.errors import InputError

# Each ends the YAML library in another kind of error.
ODD = [
    b"a: !!bool x",
    b"a: !!int ''",
    b"a: !!timestamp x",
    b"a: !!float ''",
    b"a: !!python/name:os.system",
    b"a: 2001-99-99",
    b"a: " + b"9" * 5000,
    b"a: " + b"[" * 5000,
    b"a: *b",
    b"? [x]\n: 1",
    b"\xff",
    b"\x00",
    b"- 1",
    b"0.5: 1",
    b"",
]


@pytest.mark.parametrize("content", ODD, ids=lambda content: repr(content[:20]))
def test_a_bad_config_is_one_clear_line(
    content: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "config.yaml"
    path.write_bytes(content)
    with pytest.raises(
        InputError, match=r"config\.yaml (is not YAML|must hold flags)|a flag has a name"
    ):
        read_flags(path)
    assert main(["train", f"--config={path}"]) == 2
    assert main(["train", "--config", str(path), "--output", "x"]) == 2
    assert capsys.readouterr().err.count(f"unstale: error: {path}") == 2


@pytest.mark.parametrize("flag", ["meter_steps", "probe_queries", "probe_targets"])
def test_a_run_goes_on_with_the_readings_it_began_with(flag: str, tmp_path: Path) -> None:
    # The fallback of a corrector and auto-refresh act on them.
    save_config(tmp_path, "train", TrainFlags(output=str(tmp_path)))
    words = f"--{flag.replace('_', '-')} 7: it began with"
    with pytest.raises(InputError, match=words):
        save_config(tmp_path, "train", TrainFlags(output=str(tmp_path), resume=True, **{flag: 7}))
    free = {"save_steps": 7, "eval_steps": 7, "keep_checkpoints": 7}
    save_config(tmp_path, "train", TrainFlags(output=str(tmp_path), resume=True, **free))
    assert read_flags(tmp_path / "config.yaml")["save_steps"] == 7
