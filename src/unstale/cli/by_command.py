"""What can each command refuse by its own flags and folders alone? Nothing heavy is imported."""

import os
import sys
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import unstale
from unstale.alone import check_alone
from unstale.cli.compared import check_strategy, compared_cells, rag_flags
from unstale.cli.config import CONFIG, place_of, read_config, written_by
from unstale.cli.folders import check_output
from unstale.cli.options import (
    CompareFlags,
    ConvertFlags,
    DemoFlags,
    EmbedFlags,
    MineFlags,
    OutputFlags,
    RagFlags,
    TrainFlags,
)
from unstale.cli.options_inspect import (
    AnswerFlags,
    CorrectFlags,
    ExperimentFlags,
    PlanFlags,
    ReportFlags,
    SearchFlags,
    ServeFlags,
    VerifyFlags,
)
from unstale.data.names import FORMAT_NAMES, check_name
from unstale.engine import check_engine
from unstale.errors import InputError
from unstale.integrity import BUFFER, SEAL
from unstale.migration.settings import check_vectors
from unstale.migration.stores.address import is_store
from unstale.rag.settings import check_reading
from unstale.results import CORRECTOR, RESULTS
from unstale.strategies import find_traits


def _train(chosen: TrainFlags) -> None:
    check_strategy(chosen.strategy, rag=False)
    check_alone(chosen, find_traits(chosen.strategy, rag=False), _processes())


def _demo(chosen: DemoFlags) -> None:
    earlier = written_by(Path(chosen.output), "demo")  # that is replaced, and nothing else
    check_output(OutputFlags(chosen.output, overwrite=earlier))


def _compare(chosen: CompareFlags) -> None:
    for name in dict(compared_cells(chosen)):
        if chosen.rag or chosen.reader:
            _rag(replace(rag_flags(chosen), strategy=name))
        else:
            _train(replace(chosen, strategy=name))


def _rag(chosen: RagFlags) -> None:
    check_strategy(chosen.strategy, rag=True)
    check_alone(chosen, find_traits(chosen.strategy, rag=True), _processes())
    check_reading(chosen)
    if chosen.reader == "tiny" and chosen.reader_lora:
        raise InputError("--reader-lora needs a pretrained reader: tiny has nothing to adapt")


def _processes() -> int:
    return int(os.environ.get("WORLD_SIZE", "1"))


def _correct(chosen: CorrectFlags) -> None:
    chosen.check_alone()
    check_engine(chosen.engine, chosen.shard)
    chosen.check_way(old_model=bool(chosen.old_model))
    if not chosen.vectors:
        raise InputError("--vectors is required: the old vectors")
    if not is_store(chosen.vectors):
        check_vectors(Path(chosen.vectors))
    for read in (chosen.vectors, chosen.data):
        if Path(chosen.output).resolve().is_relative_to(place_of(read).resolve()):
            raise InputError(f"--output {chosen.output} lies in {read}, which is only read")
    if chosen.swap and not (is_store(chosen.vectors) and chosen.way == "rewrite"):
        raise InputError("--swap is for a collection that is rewritten: --way rewrite")


def _embed(chosen: EmbedFlags) -> None:
    check_engine(chosen.engine, chosen.shard)


def _mine(chosen: MineFlags) -> None:
    check_engine(chosen.engine)
    _check_format(chosen.format)
    chosen.filters.check(chosen.hard_negatives)
    if chosen.run is not None:
        run_parts(chosen.run)
    elif not chosen.data:
        raise InputError("--data is required: what to mine for, or --run for a training run")


def _convert(chosen: ConvertFlags) -> None:
    _check_format(chosen.to)
    if not chosen.data:
        raise InputError("--data is required: what to convert")


def _check_format(name: str) -> None:
    if name not in FORMAT_NAMES:
        raise InputError(f"unknown format {name!r}; choose from {', '.join(FORMAT_NAMES)}")


def _plan(chosen: PlanFlags) -> None:
    if chosen.output and os.path.lexists(chosen.output):
        raise InputError(f"--output {chosen.output} exists, and is not replaced")
    if chosen.flops is not None and chosen.parameters is None:
        raise InputError("--flops needs --parameters and --dim beside it")
    if chosen.flops is None and chosen.parameters is not None:
        raise InputError("--parameters needs --flops beside it; otherwise the model is measured")


def _verify(chosen: VerifyFlags) -> None:
    top = Path(chosen.path)
    if not top.is_dir():
        raise InputError(f"{top} is not a folder")
    if not manifests(top):
        raise InputError(f"nothing to verify in {top}: no {SEAL} and no buffer's {BUFFER}")


def _report(chosen: ReportFlags) -> None:
    if not (Path(chosen.run) / RESULTS).is_file():
        raise InputError(f"no {RESULTS} in {chosen.run}: not a finished run")


def _search(chosen: SearchFlags) -> None:
    if not chosen.query.strip():
        raise InputError("the query is empty")
    _serve(chosen)


def _answer(chosen: AnswerFlags) -> None:
    if not chosen.question.strip():
        raise InputError("the question is empty")
    _serve(chosen)
    if not (Path(chosen.run) / "reader").is_dir():
        raise InputError(f"{chosen.run} is not a finished run of `unstale rag`: it has no reader")


def _serve(chosen: SearchFlags | AnswerFlags | ServeFlags) -> None:
    check_name(config_with_data(check_run(chosen.run))["data"])


def _experiment(chosen: ExperimentFlags) -> None:
    find_registry().read_study(chosen.name, study_settings(chosen))


OWN: dict[str, Callable[[Any], None]] = {
    "demo": _demo,
    "train": _train,
    "compare": _compare,
    "rag": _rag,
    "embed": _embed,
    "correct": _correct,
    "mine": _mine,
    "convert": _convert,
    "plan": _plan,
    "verify": _verify,
    "report": _report,
    "search": _search,
    "answer": _answer,
    "serve": _serve,
    "experiment": _experiment,
}


def manifests(top: Path) -> list[Path]:
    """List the lists of checksums in a folder; a hidden folder is unfinished, and left out."""
    found = sorted([*top.rglob(SEAL), *top.rglob(BUFFER)])
    return [p for p in found if not any(n.startswith(".") for n in p.relative_to(top).parts)]


def check_run(path: str) -> Path:
    """Return the folder that has the flags of a finished run: of a comparison's cell, its own."""
    folder = owner = Path(path)
    if not (folder / "model").is_dir():
        cells = sorted(str(path.parent) for path in (folder / "cells").glob("*/model"))
        if cells:
            rule = f"name one of its cells, e.g. {cells[0]}"
            raise InputError(f"{folder} is a comparison; {rule}")
        raise InputError(f"{folder} is not a finished training run (no model/)")
    if not (folder / CONFIG).is_file() and folder.resolve().parent.name == "cells":
        owner = folder.resolve().parent.parent
    if not (owner / CONFIG).is_file():
        raise InputError(f"{folder} is not a finished training run (no {CONFIG})")
    return owner


def run_parts(run: str) -> tuple[str, str, str]:
    """Find the data, the trained encoder and the stale buffer of a run that has a corrector."""
    folder = Path(run)
    if not (folder / CONFIG).is_file() or not (folder / CORRECTOR).is_file():
        way = f"--model {folder / 'model'} embeds the targets with the trained model instead"
        raise InputError(f"{folder} is not a finished run that keeps its corrector: {way}")
    config = config_with_data(folder)
    return config["data"], str(folder / "model"), str(config.get("buffer") or folder / "buffer")


def config_with_data(folder: Path) -> dict[str, Any]:
    """Read the flags of a run, which must say what it was trained on."""
    config = read_config(folder)
    if not isinstance(config.get("data"), str):
        raise InputError(f"{folder / CONFIG} does not say which data the run used")
    return config


def study_settings(chosen: ExperimentFlags) -> dict[str, Any]:
    """Return what was given for a study, by its names."""
    given = {"seed": chosen.seed, "data": chosen.data, "train": chosen.train or None, **chosen.set}
    return {name: value for name, value in given.items() if value is not None}


def find_registry() -> Any:  # noqa: ANN401 - a module of the checkout
    """Import the list of studies of the checkout that has this package, or the current folder."""
    places = (Path(unstale.__file__).resolve().parents[2], Path.cwd())
    for place in places:
        if (place / "experiments" / "registry.py").is_file():
            sys.path.insert(0, str(place))
            return import_module("experiments.registry")
    raise InputError(
        "the experiments are part of unstale's source checkout, not of the installed package, and "
        f"neither {places[0]} nor the current folder is a checkout: clone the repository, and run "
        "this command in its folder, or install it from there with `pip install -e .`"
    )
