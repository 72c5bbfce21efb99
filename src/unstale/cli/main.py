"""`unstale`: parse the command line, run a command, and turn bad input into one clear line."""

import errno
import faulthandler
import io
import os
import re
import sys
from argparse import ArgumentError
from collections.abc import Mapping, Sequence
from contextlib import nullcontext, redirect_stdout, suppress
from dataclasses import MISSING, fields
from difflib import get_close_matches
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, final

import yaml
from jsonargparse import (  # type: ignore[attr-defined]
    ActionConfigFile,
    ArgumentParser,
    Namespace,
    set_parsing_settings,
)

from unstale.bfloat16 import ensure_bfloat16
from unstale.cli import options, options_inspect
from unstale.cli.config import CONFIG, read_flags
from unstale.cli.early import check_early
from unstale.cli.flags import about, add_flags, flag_values, instantiate, known_flags
from unstale.cli.signals import Terminated, obey_signals, obeyed
from unstale.declare import check_bounds
from unstale.declare import flag as flag_of
from unstale.errors import InputError, RunError
from unstale.locks import release
from unstale.shown import fail, show_logs
from unstale.strategies import described

# Every command, in the order of `unstale --help`. `TrainFlags` are those of `unstale train`, which
# is `run` of unstale.cli.train: modules load only when they run, so that `--help` does not wait
# for torch.
COMMANDS: dict[str, type] = {
    kind.__name__.removesuffix("Flags").lower(): kind
    for kind in (
        options.DemoFlags,
        options.EmbedFlags,
        options.TrainFlags,
        options.RagFlags,
        options_inspect.AnswerFlags,
        options.CompareFlags,
        options.EvaluateFlags,
        options_inspect.SearchFlags,
        options_inspect.ServeFlags,
        options_inspect.ReportFlags,
        options_inspect.DoctorFlags,
        options_inspect.PlanFlags,
        options_inspect.VerifyFlags,
        options_inspect.CorrectFlags,
        options.MineFlags,
        options.ConvertFlags,
        options_inspect.ExperimentFlags,
    )
}

# Flags that are gone, and what to use.
_KINDS = {  # how the parser names a type, and how we do
    "'int'": "a whole number",
    "'float'": "a number",
    "'bool'": "true or false",
    "Sequence": "a list such as [256,128]",
}
_MEANT = {  # what others call a flag
    "lr": "learning-rate",
    "bs": "batch-size",
    "num-epochs": "epochs",
    "num-train-epochs": "epochs",
    "max-steps": "steps",
    "dataset": "data",
    "gpu": "device",
    "max-seq-length": "target-max-length",
    "top-k": "k",
}
_RENAMED = {
    "refresh": "use --refreshes N for N re-embeddings in the run, --refresh-every N for one after "
    "every N steps, or --refresh-schedule START-END:EVERY,... ",
}
_DISK = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS}  # not the user's fault
# What torchrun can start in several processes.
SHARED = ("train", "rag", "compare", "embed", "evaluate", "mine", "correct")
set_parsing_settings(add_print_completion_argument=True)  # `unstale --print_completion shtab-bash`


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; return 0, 2 for bad input, or 3 for a run that had to stop."""
    if arguments is None:  # as a program: say where, if a lost memory map ends it (SIGBUS)
        faulthandler.enable()
        show_logs()
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        parsed = parse(words)
        name = parsed.subcommand
        if parsed[name].get("resume") and parsed[name].output:
            config = Path(parsed[name].output, CONFIG)
            if config.is_file():  # the run folder knows its flags; those given now win
                place = words.index(name) + 1
                parsed = _parse_again(words[:place], config, words[place:])
    except InputError as error:
        return _fail(2, f"unstale: error: {error}")
    chosen = instantiate(COMMANDS[name], parsed[name].as_dict())
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")
    try:
        if arguments is None:  # before this, `__main__` answers signals
            obey_signals()
        if int(os.environ.get("WORLD_SIZE", "1")) > 1 and name not in SHARED:
            raise InputError(f"it runs in one process; torchrun is for {', '.join(SHARED)}")
        check_bounds(chosen)
        check_early(name, chosen)
        _prepare_bfloat16(parsed[name])
        with redirect_stdout(io.StringIO()) if _is_further() else nullcontext():
            import_module(f"unstale.cli.{name}").run(chosen)
    except InputError as error:
        return _fail(2, f"unstale {name}: error: {error}")
    except OSError as error:
        if error.errno in _DISK:
            return _fail(3, f"unstale {name}: stopped: {error}")
        return _fail(2, f"unstale {name}: error: {error}")
    except RunError as error:
        return _fail(3, f"unstale {name}: stopped: {error}")
    except RuntimeError as error:
        from unstale.distributed import LOST, is_lost

        if not is_lost(error):
            raise
        return _fail(3, f"unstale {name}: stopped: {LOST}")
    except Terminated:
        obeyed()
        return _fail(143, f"unstale {name}: terminated{_way_on(chosen)}")
    except KeyboardInterrupt:
        return _fail(130, f"unstale {name}: interrupted{_way_on(chosen)}")
    finally:
        release()
    return 0


def _parse_again(command: list[str], config: Path, flags: list[str]) -> Namespace:
    """Parse a command line with the flags that a run began with, which may be of another time."""
    try:
        return parse([*command, "--config", str(config), *flags])
    except InputError as error:
        if "does not accept option" not in str(error):
            raise
        said = str(error).partition(" (with")[0]
        rule = "another version of unstale wrote it; use that version, or start anew"
        raise InputError(f"cannot resume {config.parent}: {rule} ({said})") from None


def _is_further() -> bool:
    """Tell whether this is one of several processes, and not the one that prints."""
    alone = int(os.environ.get("WORLD_SIZE", "1")) == 1
    return not alone and os.environ.get("RANK", "0") != "0"


def _way_on(chosen: Any) -> str:  # noqa: ANN401 - the flags of any command
    """Say how to resume a run that has begun."""
    began = "resume" in flag_values(chosen) and Path(chosen.output, CONFIG).is_file()
    return f"; --resume --output {chosen.output} continues it" if began else ""


def _fail(code: int, said: str) -> int:
    fail(said)
    return code


def _prepare_bfloat16(values: Namespace) -> None:
    """Limit the instruction set if bfloat16 needs that on this CPU; torch is not imported yet.

    Only torch knows whether the run will be on the CPU, so the command itself reports a CPU on
    which no limit helps, once it has loaded the model.
    """
    if values.get("device") in (None, "cpu") and (values.get("trainer") or {}).get("bf16"):
        with suppress(InputError):
            ensure_bfloat16()


def parse(words: Sequence[str]) -> Namespace:
    """Parse a command line; errors in its config files are reported before the parser fails."""
    files: list[Path] = []
    for i, word in enumerate(words):
        flag, equals, value = word.partition("=")
        path = Path(value if equals else "".join(words[i + 1 : i + 2]))
        if flag == "--config" and path.is_file():
            files.append(path)
    try:
        return _parser_for(words).parse_args(words)
    except RecursionError:  # a value of brackets in brackets, on the line or in a file
        raise InputError("a flag's value is nested too deeply") from None
    except ArgumentError as error:  # without the page of usage that would hide it
        said = _plainly(" ".join(str(error).split()).rstrip("."))
        said += f" (with the flags of {', '.join(map(str, files))})" if files else ""
        raise InputError(f"{said}; {_tip(words, said)}") from None


def _plainly(said: str) -> str:
    """Say what a flag takes in plain words, where the parser speaks of Python's types."""
    found = re.fullmatch(
        r'Parser key "([\w.]+)": (.*?Expected a .*?)G(?:ot|iven) value: (.*)', said
    )
    if not found:
        return said
    name, rule, value = found.groups()
    choices = re.search(r"Literal\[(.*?)\]", rule)
    kinds = (word for kind, word in _KINDS.items() if kind in rule)
    takes = "one of " + choices[1].replace("'", "") if choices else next(kinds, "")
    return f"{flag_of(name)} must be {takes}, got {value!r}" if takes else said


def _tip(words: Sequence[str], said: str) -> str:
    """Say which flag may have been meant, and where all are listed."""
    name = words[0] if words and words[0] in COMMANDS else ""
    if not name and words and (near := get_close_matches(words[0], COMMANDS, 1)):
        return f"did you mean {near[0]}? see unstale --help"
    known = known_flags(COMMANDS[name]) if name else []
    wrong = re.findall(r"(?:arguments: --|option ')([\w-]+)", said)
    usual = [_MEANT.get(word.replace("_", "-"), word) for word in wrong]
    like = [close for word in usual for close in get_close_matches(word, known, 1)]
    meant = f"did you mean --{like[0]}? " if like else ""
    meant = next((advice for word in wrong if (advice := _RENAMED.get(word))), meant)
    return f"{meant}see unstale {name}{' ' * bool(name)}--help"


def _parser_for(words: Sequence[str]) -> ArgumentParser:
    """Return the parser; only where help is asked for, it describes every strategy."""
    if any(word.startswith("--print_completion") for word in words):
        return build_parser()  # which is of no other use afterwards
    if not {"-h", "--help"} & set(words) or words[0] not in ("train", "compare", "rag"):
        return parser()
    known = described(rag=words[0] == "rag")
    said = [f"{name}: {about}." for name, about in known.items()]
    return build_parser({"strategy": " " + " ".join(said).replace("`", "")})


@final
class _Config(ActionConfigFile):
    """Hand the parser what our own reader made of a file: no other code reads one."""

    @staticmethod
    def apply_config(parser: Any, cfg: Any, dest: str, value: str) -> None:  # noqa: ANN401
        text = yaml.safe_dump(read_flags(Path(value)), sort_keys=False)
        ActionConfigFile.apply_config(parser, cfg, dest, text)


@cache
def parser() -> ArgumentParser:
    """Return the parser, built once."""
    return build_parser()


def build_parser(more_help: Mapping[str, str] | None = None) -> ArgumentParser:
    """Build the parser; each command also reads its flags from `--config FILE.yaml`.

    `more_help` is added to the help of some flags, by their name.
    """
    from unstale import __version__

    top = ArgumentParser(
        prog="unstale",
        description="Train dense retrievers with hard negatives that are fresh at every step, "
        "without re-embedding the corpus.",
        version=__version__,
        exit_on_error=False,
        allow_abbrev=False,  # of the commands, too: --k must not be --keep-checkpoints
    )
    commands = top.add_subcommands(title="commands", metavar="COMMAND")
    for name, kind in COMMANDS.items():
        summary, more = about(kind)
        words = [f.name.upper() for f in fields(kind) if f.default is f.default_factory is MISSING]
        sub = ArgumentParser(
            usage=" ".join(["unstale", name, *words, "[flags]"]),
            description=f"{summary} {more}",
            exit_on_error=False,
        )
        sub.add_argument("--config", action=_Config, help="Read flags from a YAML file.")
        add_flags(sub, kind, more_help or {})
        commands.add_subcommand(name, sub, help=summary)
    return top


if __name__ == "__main__":
    sys.exit(main())
