"""How each contender trains: `unstale`, and the recipes of sentence-transformers."""

import argparse
import atexit
import os
import shutil
import tempfile
import time
from functools import cached_property
from pathlib import Path
from unittest.mock import patch

import numpy as np
import torch
from datasets import Dataset
from sentence_transformers import (
    SentenceTransformer,
    SentenceTransformerTrainer,
    SentenceTransformerTrainingArguments,
    util,
)
from sentence_transformers.sentence_transformer.losses import (
    CachedMultipleNegativesRankingLoss,
    GISTEmbedLoss,
    MultipleNegativesRankingLoss,
)
from transformers import TrainerCallback, set_seed

from unstale import FreshNegatives
from unstale.buffer.embed import embed_corpus
from unstale.buffer.fingerprint import fingerprint
from unstale.data.load import load_dataset
from unstale.encoders.embed import is_cosine, is_static, prompt_of
from unstale.encoders.load import default_towers, load_encoder
from unstale.encoders.tokenise import target_tokens
from unstale.errors import InputError
from unstale.evaluation.evaluator import Evaluator
from unstale.evaluation.nearest import Corpus
from unstale.evaluation.retrieve import cached_chunks
from unstale.training.job import train

MARGIN = 0.05  # of mine_hard_negatives, as its documentation advises
DROP_IN = "three lines"
METHODS = ("in-batch", "mined", "large batch", "GIST", DROP_IN)
OURS = "unstale, "  # before the name of a strategy
SLACK, FITS = 0.1, 2  # of the time; how often to fit the steps to it


class Clock(TrainerCallback):
    """Time the steps."""

    def __init__(self):
        self.ends: list[float] = []

    def on_step_end(self, args, state, control, **_):
        self.ends.append(time.perf_counter())

    @property
    def pace(self) -> float:
        """Seconds a step; the first one warms up."""
        return (self.ends[-1] - self.ends[0]) / max(1, len(self.ends) - 1)


class Benchmark:
    """The data, the start, and one way to train and measure for each side."""

    def __init__(self, chosen: argparse.Namespace) -> None:
        self.chosen = chosen
        self.dataset = load_dataset(chosen.data)
        model, scratch = self.start(), tempfile.mkdtemp(prefix="unstale-")
        atexit.register(shutil.rmtree, scratch, ignore_errors=True)
        tokens, made_by = (
            target_tokens(model, self.dataset),
            fingerprint(model, self.dataset.targets),
        )
        self.evaluator = Evaluator(self.dataset, chosen.eval_split, tokens)
        # The corpus before training, to measure by: every run starts from it.
        self.start_buffer = Path(scratch, "buffer")
        with self.precision():
            self.corpus, _ = embed_corpus(model, tokens, self.start_buffer, made_by)
        pairs = self.dataset.split("train").pairs
        self.pairs = Dataset.from_dict(
            {
                "anchor": self.dataset.queries.take(pairs[:, 0]),
                "positive": self.dataset.targets.take(pairs[:, 1]),
            }
        )

    def start(self) -> SentenceTransformer:
        name, shape = self.chosen.model, {}
        if self.chosen.max_length:
            shape = dict.fromkeys(("query_max_length", "target_max_length"), self.chosen.max_length)
        return load_encoder(name, towers=default_towers(name), layers=self.chosen.layers, **shape)

    def precision(self) -> torch.autocast:
        """Embed in the precision of the training."""
        return torch.autocast("cpu", torch.bfloat16, enabled=self.chosen.bf16)

    def before(self) -> dict:
        """Measure the start."""
        found = self.evaluate(self.start(), cached_chunks(self.corpus))
        return found | {"seconds": 0.0, "steps": 0}

    def evaluate(self, model: SentenceTransformer, corpus: Corpus | None = None) -> dict:
        """Measure a model: the means, and every query's values."""
        with self.precision():
            metrics = self.evaluator(model, corpus)
        return {"metrics": metrics, "queries": self.evaluator.values[self.evaluator.split]}

    def run(self, method: str, seed: int, steps: int) -> dict:
        """Train and measure one method."""
        if method.startswith(OURS):
            return self.unstale(method.removeprefix(OURS), seed, steps)
        model, found = self.train(method, seed, steps)
        return self.evaluate(model) | found

    def train(self, method: str, seed: int, steps: int) -> tuple[SentenceTransformer, dict]:
        """Train a recipe of sentence-transformers; mining counts as a part of it."""
        rows, mining = self.mined if method == "mined" else (self.pairs, 0.0)
        model, found = self.stock(method, seed, rows, steps)
        return model, found | {"seconds": found["seconds"] + mining}

    def unstale(self, strategy: str, seed: int, steps: int) -> dict:
        model, chosen = self.start(), self.chosen
        with (
            tempfile.TemporaryDirectory() as folder,
            patch.dict(os.environ, UNSTALE_CACHE=folder),  # tokenising counts
        ):
            entry = train(
                self.dataset, model, Path(folder, "run"), strategy=strategy,
                steps=steps, batch_size=chosen.batch_size, seed=seed,
                learning_rate=chosen.learning_rate, eval_split=chosen.eval_split,
                mine_from=chosen.mine_from, buffer=self.start_buffer,
                trainer={"bf16": True} if chosen.bf16 else {},
            )  # fmt: skip
            with np.load(Path(folder, "run", f"{self.evaluator.split}.npz")) as values:
                queries = dict(values)
        spent = entry.seconds
        return {
            "metrics": dict(entry.metrics),
            "queries": queries,
            "seconds": spent["total"] - spent["evaluation"],
            "steps": steps,
            "seconds_a_step": (spent["training"] - spent["starting"]) / max(1, steps - 1),
        }

    @cached_property
    def mined(self) -> tuple[Dataset, float]:
        """Add mined negatives to the pairs, and say how long it took.

        The start mines, as nothing else is trained yet: the same for every seed, so once is enough.
        """
        model, began = self.start(), time.perf_counter()
        with self.precision():
            mined = util.mine_hard_negatives(
                self.pairs, model, corpus=list(self.dataset.targets),
                num_negatives=self.chosen.hard_negatives, relative_margin=MARGIN,
                output_format="n-tuple", batch_size=256,
            )  # fmt: skip
        return mined, time.perf_counter() - began

    def stock(
        self, name: str, seed: int, rows: Dataset, steps: int
    ) -> tuple[SentenceTransformer, dict]:
        """Train with a stock trainer; return the model, and the pace of its steps."""
        set_seed(seed)
        model, clock, chosen = self.start(), Clock(), self.chosen
        began = time.perf_counter()
        batch = chosen.large_batch if name == "large batch" else chosen.batch_size
        if len(rows) < batch:
            raise InputError(f"{name}: a batch of {batch} needs as many pairs, not {len(rows)}")
        with (
            tempfile.TemporaryDirectory() as folder,
            patch.dict(os.environ, UNSTALE_CACHE=folder),  # tokenising counts
        ):
            fresh = None
            if name == DROP_IN:
                fresh = FreshNegatives(model, rows, self.dataset.targets, seed=seed)
                rows = fresh.dataset
            texts = [c for c in rows.column_names if c != "label"]
            arguments = self.arguments(folder, model, texts, seed, steps, batch)
            trainer = SentenceTransformerTrainer(
                model, arguments, train_dataset=rows, callbacks=[clock],
                loss=fresh.loss if fresh else self.loss(name, model),
            )  # fmt: skip
            (fresh.attach(trainer) if fresh else trainer).train()
            if not clock.ends:
                rule = "the sampler found too few batches without a text twice"
                raise InputError(f"{name}: {rule}; try a smaller batch than {batch}")
            model.save_pretrained(str(Path(folder, "model")))
        seconds = time.perf_counter() - began
        spent = {"seconds": seconds, "steps": len(clock.ends), "seconds_a_step": clock.pace}
        return model, spent | {"pairs": len(rows)}

    def loss(self, name: str, model: SentenceTransformer) -> object:
        """Make the loss of a recipe of sentence-transformers."""
        cosine = is_cosine(model)
        if name == "GIST":
            return GISTEmbedLoss(model, load_encoder(self.chosen.guide), temperature=0.05)
        scores = {"scale": 20.0 if cosine else 1.0}
        scores["similarity_fct"] = util.cos_sim if cosine else util.dot_score
        if name == "large batch" and not is_static(model):
            scores["mini_batch_size"] = self.chosen.batch_size
            return CachedMultipleNegativesRankingLoss(model, **scores)
        return MultipleNegativesRankingLoss(model, **scores)

    def arguments(
        self, folder: str, model: SentenceTransformer, columns: list[str], seed: int, steps: int,
        batch: int,
    ) -> SentenceTransformerTrainingArguments:  # fmt: skip
        """Say what every script tells its trainer."""
        queries = ("anchor", "query")
        tasks = {c: "query" if c in queries else "document" for c in columns}
        return SentenceTransformerTrainingArguments(
            output_dir=folder, max_steps=steps, per_device_train_batch_size=batch,
            learning_rate=self.chosen.learning_rate, warmup_steps=10 if steps > 10 else 0,
            seed=seed, batch_sampler="no_duplicates_hashed", router_mapping=tasks,
            prompts={c: p for c, task in tasks.items() if (p := prompt_of(model, task))},
            save_strategy="no", report_to="none", logging_steps=max(1, steps // 5),
            dataloader_drop_last=True, use_cpu=model.device.type == "cpu", bf16=self.chosen.bf16,
            dataloader_pin_memory=model.device.type != "cpu",
        )  # fmt: skip

    def fitted(self, method: str, seed: int, budget: float) -> dict:
        """Train one method for as many steps as fit into the time."""
        # Only to learn the pace: a tenth of the steps, not measured where that can be left out.
        few = max(2, self.chosen.steps // 10)
        found = (
            self.run(method, seed, few)
            if method.startswith(OURS)
            else (self.train(method, seed, few)[1])
        )
        for _ in range(FITS):
            around = found["seconds"] - found["steps"] * found["seconds_a_step"]
            if around >= budget:  # mining alone takes longer
                return self.before() | {"seconds": around}
            found = self.run(
                method, seed, max(2, round((budget - around) / found["seconds_a_step"]))
            )
            if abs(found["seconds"] / budget - 1) <= SLACK:
                break
        return found
