"""What is written in a format is found to be in that format, and read back as it was."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from unstale.data.dataset import Qrels, RetrievalDataset, Texts
from unstale.data.formats import FORMATS, find_format
from unstale.data.formats.format import TWINS
from unstale.data.formats.walk import examples, queries, targets
from unstale.data.load import load_dataset

WRITTEN = [name for name in FORMATS if name != "ir_datasets"]


def world() -> RetrievalDataset:
    """Titles, quotes, two positives, ordered negatives, a twin, targets that nobody names."""
    texts = [
        'Castle An old fort, "the Keep", on a hill.',
        "River Water; it's deep 河",
        "no title here, only text",
        'Castle An old fort, "the Keep", on a hill.',
        "Spider eight legs\\n\\t and a net",
        "Bread 'flour' and water",
    ]
    return RetrievalDataset(
        name="world",
        target_ids=Texts.of(["d0", "d1", "2", "d3", "d4", "d5"]),
        targets=Texts.of(texts),
        query_ids=Texts.of(["q0", "7", "q2", "q3"]),
        queries=Texts.of(["which fort?", 'how "deep", then?', "who nets, and why?", "what rises?"]),
        qrels={
            "train": Qrels(
                query=np.array([0, 0, 0, 0, 1, 1]),
                target=np.array([0, 2, 4, 1, 1, 5]),
                grade=np.array([1, 2, 0, 0, 1, 0]),
            ),
            "dev": Qrels(np.array([2, 3]), np.array([4, 5]), np.array([1, 1])),
        },
        answers=[["the Keep"], [], ["Spider", "a spider"], []],
        title_ends=np.array([6, 5, 0, 6, 6, 5]),
    )  # fmt: skip


def judged(dataset: RetrievalDataset, split: str) -> dict[str, tuple[set[str], list[str]]]:
    return {
        e.query: ({t.joined for t in e.positives}, [t.joined for t in e.negatives])
        for e in examples(dataset, split)
    }


@pytest.fixture(params=WRITTEN)
def trip(
    request: pytest.FixtureRequest, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> tuple[str, RetrievalDataset, RetrievalDataset]:
    folder = tmp_path / "world"
    folder.mkdir()
    find_format(request.param).write(world(), folder)
    # DPR's files mean the first positive alone, unless told otherwise.
    read = load_dataset(f"{folder}:positives=all" if request.param == "dpr" else str(folder))
    assert f"read as {request.param}," in caplog.text
    return request.param, world(), read


def test_texts_and_judgements_survive(
    trip: tuple[str, RetrievalDataset, RetrievalDataset],
) -> None:
    _, before, after = trip
    assert Counter(after.targets.take(range(6))) == Counter(before.targets.take(range(6)))
    assert after.name == "world"
    assert set(after.qrels) == {"train", "dev"}
    for split in ("train", "dev"):
        assert judged(after, split) == judged(before, split)


def test_what_a_format_has_a_place_for_survives(
    trip: tuple[str, RetrievalDataset, RetrievalDataset],
) -> None:
    name, before, after = trip
    lacks = find_format(name).lacks
    assert set(lacks) <= {"ids", "query ids", "titles", "answers", "grades", TWINS}

    def kept(dataset: RetrievalDataset) -> dict[str, object]:
        corpus = list(targets(dataset))
        every = {
            "titles": [(t.title, t.text) for t in corpus],
            "target ids": [t.id for t in corpus],
            "query ids": {q.text: q.id for q in queries(dataset)},
            "answers": {q.text: q.answers for q in queries(dataset)},
            "grades": sorted(dataset.split("train").grade.tolist()),
        }
        lost = {*lacks} | ({"target ids", "query ids"} if "ids" in lacks else set())
        return {key: value for key, value in every.items() if key not in lost}

    assert kept(after) == kept(before)


@pytest.mark.parametrize("name", ["dpr", "csv"])
def test_line_ends_and_tabs_inside_texts_survive_quoting(name: str, tmp_path: Path) -> None:
    dataset = world()
    texts = ["a\nb\tc", 'x "y"\r\nz', "lone\rreturn", "d\r\re", '"\re"', "f\u2028\vg"]
    odd = RetrievalDataset(**{**vars(dataset), "targets": Texts.of(texts), "title_ends": None})
    find_format(name).write(odd, tmp_path)
    assert load_dataset(str(tmp_path)).targets.take(range(6)) == texts


def test_msmarco_says_that_it_flattens(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    texts = ["a\nb\tc", "b", "c", "d", "e", "f"]
    odd = RetrievalDataset(**{**vars(world()), "targets": Texts.of(texts), "title_ends": None})
    find_format("msmarco").write(odd, tmp_path)
    assert "collection.tsv: 1 lines had tabs or line ends, now spaces" in caplog.text
    assert load_dataset(str(tmp_path)).targets[0] == "a b c"


def test_queries_without_a_positive_are_counted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    dataset = world()
    negative = Qrels(np.array([0, 1]), np.array([0, 1]), np.array([1, 0]))
    odd = RetrievalDataset(**{**vars(dataset), "qrels": {"train": negative}})
    find_format("flagembedding").write(odd, tmp_path)
    assert "1 queries of train have no positive and are left out" in caplog.text
    assert judged(load_dataset(str(tmp_path)), "train").keys() == {"which fort?"}
