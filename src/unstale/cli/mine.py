"""`unstale mine`."""

import time
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import torch
from sentence_transformers import SentenceTransformer

from unstale.alone import check_mined
from unstale.buffer.buffer import TargetBuffer, read_manifest
from unstale.buffer.embed import embed_corpus
from unstale.buffer.fingerprint import fingerprint
from unstale.cli.by_command import run_parts
from unstale.cli.finished import run_corrector
from unstale.cli.options import MineFlags
from unstale.cli.output import run_folder
from unstale.cli.read import open_encoder, read_data
from unstale.data.dataset import RetrievalDataset
from unstale.data.formats import find_format
from unstale.data.formats.columns import LACKS
from unstale.data.holdout import hold_out
from unstale.data.names import HELD_OUT
from unstale.distributed import first_alone, on_first, rank, start
from unstale.encoders.cross import CrossScores
from unstale.encoders.tokenise import target_tokens
from unstale.errors import InputError
from unstale.files import scratch_beside
from unstale.machine import free_memory
from unstale.miners import Corrected, FalseNegatives, Miner, Negatives, Stale
from unstale.miners.offline import complete, mine_split, with_negatives
from unstale.report.table import dropped_text
from unstale.shown import say


def run(chosen: MineFlags) -> None:
    """Mine for every query of a split, and write the data with its negatives."""
    form = find_format(chosen.format)
    if form.write is None:
        raise InputError(f"{form.name} can be read, but not written")
    if chosen.run is not None:
        data, model, buffer = run_parts(chosen.run)
        data, buffer = chosen.data or data, chosen.buffer or buffer
        chosen = replace(chosen, data=data, model=model, buffer=buffer)
    start(chosen.device)
    with run_folder("mine", chosen) as output, ExitStack() as stack:
        dataset = read_data(chosen.data)
        if chosen.holdout and "train" in dataset.qrels:  # the queries that `train` measures on
            held = chosen.split if chosen.split in HELD_OUT else "test"
            dataset = hold_out(dataset, held, chosen.holdout, progress=rank() == 0)
        _check(chosen, dataset)
        if form.check is not None:
            form.check(dataset)
        encoder = open_encoder(chosen)
        began = time.perf_counter()
        # Room for the result is room for a buffer.
        scratch = on_first(lambda: stack.enter_context(scratch_beside(output.path)))
        negatives = _negatives(chosen, dataset, encoder, scratch)
        count, progress = chosen.hard_negatives, rank() == 0
        mined = mine_split(encoder, dataset, chosen.split, negatives, count, progress=progress)
        seconds = time.perf_counter() - began
        how = chosen.short or ("drop" if form.lacks == LACKS else "keep")
        short = complete(mined, dataset, how)
        if not len(mined.queries):
            rule = "loosen the filters, mine fewer, or use --short refill"
            raise InputError(f"no query has {chosen.hard_negatives} negatives: {rule}")
        written = with_negatives(dataset, chosen.split, mined)
        if rank() == 0:
            with output.at_once() as folder:
                form.write(written, folder)
    count = int((mined.targets >= 0).sum())
    say(
        f"{count:,} negatives for {len(mined.queries):,} queries of {chosen.split}, {seconds:.0f} s"
    )
    if short:
        done = {"drop": "left out", "pad": "padded", "refill": "refilled at random", "keep": "kept"}
        fewer = f"{short:,} queries had fewer than {chosen.hard_negatives} negatives"
        say(f"{fewer}: {done[how]} (--short {how})")
    if dropped := dropped_text(mined.dropped, mined.considered, mined.missing):
        say(dropped)
    if lost := form.loses(written):
        say(f"{form.name} cannot store: {', '.join(lost)}")
    say(f"{form.name}: {output.path}")


def _check(chosen: MineFlags, dataset: RetrievalDataset) -> None:
    """Refuse what cannot work before anything is embedded."""
    dataset.split(chosen.split)
    check_mined(chosen.hard_negatives, len(dataset.targets))
    if chosen.run is not None and chosen.buffer is not None:
        made_of = read_manifest(Path(chosen.buffer))["fingerprint"].get("texts")
        if made_of != dataset.targets.digest:
            raise InputError(
                f"the buffer {chosen.buffer} was made of other texts than {dataset.name}"
            )


def _negatives(
    chosen: MineFlags, dataset: RetrievalDataset, model: SentenceTransformer, scratch: Path
) -> Negatives:
    """Make what mines: a run's buffer seen through its corrector, or the model's own."""
    asked = None
    if chosen.cross_encoder:  # first: a wrong name must not cost an embedding
        asked = CrossScores(chosen.cross_encoder, dataset, device=str(model.device))
    buffer = Path(chosen.buffer) if chosen.buffer else None
    miner: Miner
    if chosen.run is not None:
        assert buffer is not None
        stale = _near(TargetBuffer.open_checked(buffer), model.device)
        network = run_corrector(chosen.run, stale.dim).to(model.device)
        miner = Corrected(stale, network)
    else:
        made_by = fingerprint(model, dataset.targets)
        if buffer is None:
            with first_alone():
                tokens = target_tokens(model, dataset, progress=rank() == 0)
            embedded, _ = embed_corpus(
                model, tokens, scratch, made_by, progress=rank() == 0, engine=chosen.engine
            )
        else:
            embedded = TargetBuffer.open_checked(buffer, made_by)
        miner = Stale(_near(embedded, model.device))
    if chosen.filters.idle and asked is None:
        return Negatives(miner)
    return Negatives(miner, filters=FalseNegatives(chosen.filters, len(dataset.targets), asked))


def _near(buffer: TargetBuffer, device: torch.device) -> TargetBuffer:
    """Copy a buffer to an accelerator that has room for it; otherwise it is read from disk."""
    free = free_memory(device)
    fits = free is None or 2 * buffer.nbytes < free
    return buffer.in_memory(device) if device.type != "cpu" and fits else buffer
