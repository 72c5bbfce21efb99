"""A smaller copy of a dataset: fewer targets, or fewer training pairs for the same targets."""

from pathlib import Path

from experiments.subset import cut
from unstale.data.formats.beir import read_beir


def test_training_pairs_are_drawn_and_the_rest_stays(beir: Path, tmp_path: Path) -> None:
    cut(beir, tmp_path / "few", targets=120, pairs=30)
    whole, few = read_beir(beir), read_beir(tmp_path / "few")

    def judged(dataset, split: str) -> set[tuple[str, str]]:
        pairs = dataset.split(split).pairs.tolist()
        return {(dataset.query_ids[q], dataset.target_ids[t]) for q, t in pairs}

    assert list(few.targets) == list(whole.targets)
    assert judged(few, "dev") == judged(whole, "dev")
    assert judged(few, "test") == judged(whole, "test")
    assert len(judged(few, "train")) == 30
    assert judged(few, "train") < judged(whole, "train")
    cut(beir, tmp_path / "other", targets=120, seed=1, pairs=30)
    assert judged(read_beir(tmp_path / "other"), "train") != judged(few, "train")
