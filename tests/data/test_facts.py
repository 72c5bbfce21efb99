"""The made-up world keeps its promises."""

from unstale.data.answers import AnswerFinder
from unstale.data.facts import facts_folder
from unstale.data.load import load_dataset


def test_the_world_is_fair() -> None:
    world = load_dataset("facts", progress=False)
    texts = list(world.targets)
    assert len(set(texts)) == len(texts)
    asked = {split: {tuple(p) for p in world.split(split).pairs.tolist()} for split in world.qrels}
    facts = {split: {target for _, target in pairs} for split, pairs in asked.items()}
    assert not facts["train"] & (facts["dev"] | facts["test"])
    assert not facts["dev"] & facts["test"]
    for split, pairs in asked.items():
        assert len(pairs) > 400, split
        for query, target in pairs:
            answers = world.answers[query]
            assert AnswerFinder(answers)(texts[target]), texts[target]
            assert not AnswerFinder(answers)(world.queries[query])
            words = set(world.queries[query].strip("?").split()) & set(texts[target][:-1].split())
            assert any(len(word) == 6 and word[0].isupper() for word in words), words  # the place


def test_distractors_hold_no_answer() -> None:
    world = load_dataset("facts", progress=False)
    told = {t for split in world.qrels for t in world.split(split).pairs[:, 1].tolist()}
    values = sorted({answer for answers in world.answers for answer in answers})
    others = [text for row, text in enumerate(world.targets) if row not in told]
    assert len(others) > 1000
    assert not [text for text in others if AnswerFinder(values)(text)]


def test_every_value_is_learnt_from_other_facts() -> None:
    """What is asked in test was never asked, but each answer was given to other questions."""
    world = load_dataset("facts", progress=False)
    values = {
        split: {world.answers[q][0] for q in world.split(split).query_rows.tolist()}
        for split in world.qrels
    }
    assert values["test"] <= values["train"]


def test_it_is_the_same_every_time(monkeypatch, tmp_path) -> None:
    first = (facts_folder() / "corpus.jsonl").read_bytes()
    monkeypatch.setenv("UNSTALE_CACHE", str(tmp_path))
    assert (facts_folder() / "corpus.jsonl").read_bytes() == first
