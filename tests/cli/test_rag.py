"""`unstale rag`, `answer` and `compare --reader`, as a user types them."""

import json
from pathlib import Path

import pytest
from tests.rag.test_decoder_only import save_decoder

from unstale.cli.compared import rag_flags
from unstale.cli.main import main
from unstale.cli.options import CompareFlags, RagFlags
from unstale.rag.load import load_questions
from unstale.rag.settings import RagSettings
from unstale.report.escape import escape

FLAGS = "--k 2 --batch-size 8 --corrector-hidden 16 --probe-queries 4 --probe-targets 20".split()


def test_train_then_ask(beir: Path, bert_folder: Path, tmp_path: Path, capsys) -> None:
    run = tmp_path / "run"
    words = ["rag", "--data", str(beir), "--retriever", str(bert_folder), "--output", str(run)]
    assert main([*words, *FLAGS, "--steps", "3", "--save-steps", "2", "--layers", "1"]) == 0
    entry = json.loads((run / "results.json").read_text())["runs"][0]
    assert {"exact_match", "f1", "answer_recall", "recall@10"} <= entry["metrics"].keys()
    assert "EM" in capsys.readouterr().out
    assert main(["answer", "which river was deep?", "--run", str(run)]) == 0
    shown = capsys.readouterr().out
    assert "P(y|x)" in shown
    assert shown.count("and number") == 2  # the two targets that it read
    assert main(["report", str(run)]) == 0
    page = (run / "report.html").read_text()
    assert "exact match" in page.lower()
    assert len(entry["answers"]) == 8
    assert "What it answers" in page
    for answer in entry["answers"]:
        assert escape(answer["question"]) in page
        assert len(answer["read"]) == 2  # of k
        assert all(escape(text.split("\n")[0]) in page for text in answer["read"])
        assert escape(answer["before"] or "(no answer)") in page
    for key, value in {"k": 2, "fusion": "marginal", "reader": "tiny"}.items():
        assert f"<tr><th scope='row'>{key}</th><td>{value}</td></tr>" in page
    assert main(["rag", "--resume", "--output", str(run)]) == 0  # the folder knows its flags
    assert "is finished" in capsys.readouterr().out
    assert main(["verify", str(run)]) == 0
    for part in ("model", "reader"):
        victim = next((run / part).rglob("model.safetensors"))
        data = victim.read_bytes()
        victim.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
        assert main(["verify", str(run)]) == 2
        assert f"{victim} is damaged" in capsys.readouterr().out
        assert main(["answer", "which river was deep?", "--run", str(run)]) == 2
        assert f"{victim} is damaged" in capsys.readouterr().err
        (run / "files.json").rename(tmp_path / "seal")  # without it, what loads them must say so
        victim.write_bytes(data[:-9])
        assert main(["answer", "which river was deep?", "--run", str(run)]) == 2
        assert "error: cannot load the" in capsys.readouterr().err
        (tmp_path / "seal").rename(run / "files.json")
        victim.write_bytes(data)
    card = run / "model" / "README.md"  # which people write into, and no program reads
    card.write_text(card.read_text("utf-8") + "More words.", "utf-8")
    assert main(["verify", str(run)]) == 2
    assert main(["answer", "which river was deep?", "--run", str(run)]) == 0


def test_a_csv_and_a_folder_of_texts(bert_folder: Path, tmp_path: Path, capsys, caplog) -> None:
    """One file of questions, one folder of texts: a test split is held out, and EM is measured."""
    texts, table, run = tmp_path / "texts", tmp_path / "faq.csv", tmp_path / "run"
    texts.mkdir()
    rows = [f"what is thing {i}?,name {i}" for i in range(40)]
    table.write_text("Question,Answer\n" + "\n".join([*rows, ",", rows[0]]) + "\n")
    for i in range(10):
        (texts / f"{i}.txt").write_text(f"The thing {i} is called name {i}.")
    words = ["rag", "--data", str(table), "--corpus", str(texts), "--retriever", str(bert_folder)]
    words += ["--layers", "1", "--steps", "2", "--output", str(run)]
    assert main([*words, *FLAGS]) == 0
    entry = json.loads((run / "results.json").read_text())["runs"][0]
    assert {"exact_match", "f1", "answer_recall"} <= entry["initial_metrics"].keys()
    shown = capsys.readouterr()
    assert "--reader tiny is an untrained T5" in caplog.text
    before = next(line for line in shown.out.splitlines() if line.strip().startswith("before"))
    assert len(before.split()) >= 4  # its name, EM, F1 and answer recall
    assert len(json.loads((run / "answers.json").read_text())) == 4  # a tenth of 40
    assert main(["answer", "what is thing 3?", "--run", str(run)]) == 0
    assert "The thing" in capsys.readouterr().out


@pytest.mark.slow
def test_compare_rag_strategies(beir: Path, bert_folder: Path, tmp_path: Path, capsys) -> None:
    words = ["compare", "--data", str(beir), "--model", str(bert_folder), "--reader", "tiny"]
    words += ["--strategies", "none,frozen,stale,corrected,exhaustive", "--seeds", "0"]
    words += ["--steps", "2", "--batch-size", "8", "--rag.k", "2", "--refreshes", "1"]
    words += ["--probe-queries", "4", "--probe-targets", "20", "--layers", "1"]
    output = tmp_path / "compare"
    assert main([*words, "--output", str(output)]) == 0
    results = json.loads((output / "results.json").read_text())
    assert [r["strategy"] for r in results["runs"]] == [
        "none", "frozen", "stale", "corrected", "exhaustive",
    ]  # fmt: skip
    assert "exact_match" in results["summary"]["mean"]["none"]
    assert "answer_recall" in results["summary"]["mean"]["frozen"]
    assert "exhaustive" in capsys.readouterr().out
    cell = str(output / "cells" / "corrected-0")
    assert main(["answer", "which river was deep?", "--run", cell]) == 0
    assert "P(y|x)" in capsys.readouterr().out


@pytest.mark.slow
def test_compare_with_adapters_of_a_chat_model(
    beir: Path, bert_folder: Path, tmp_path: Path, capsys
) -> None:
    """Any reader by its folder: every cell starts from it, and each can be asked."""
    save_decoder("gpt2 with a chat template", load_questions(str(beir)), tmp_path / "reader")
    words = ["compare", "--data", str(beir), "--model", str(bert_folder), "--layers", "1"]
    words += ["--reader", str(tmp_path / "reader"), "--rag.reader_lora", "2", "--rag.k", "2"]
    words += ["--rag.reader_max_length", "40", "--rag.answer_length", "8", "--max-score", "0.9"]
    words += ["--strategies", "none,corrected", "--seeds", "0,1", "--steps", "2"]
    words += ["--batch-size", "8", "--probe-queries", "4", "--probe-targets", "20"]
    output = tmp_path / "compare"
    assert main([*words, "--output", str(output)]) == 0
    runs = json.loads((output / "results.json").read_text())["runs"]
    dropped = {(r["strategy"], r["seed"]): r.get("candidates_dropped", {}) for r in runs}
    assert set(dropped) == {(name, seed) for name in ("none", "corrected") for seed in (0, 1)}
    assert dropped["corrected", 0]["max_score"] > 0
    assert not dropped["none", 0]
    assert main(["answer", "which river was deep?", "--run", f"{output}/cells/corrected-1"]) == 0
    assert "P(y|x)" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["rag", "--reader", "nowhere/reader"], "cannot load the reader 'nowhere/reader'"),
        (["rag", "--strategy", "uniform"], "unknown strategy 'uniform'; choose from none, frozen"),
        (["rag", "--corpus", "nowhere"], "nowhere: there is no such file or folder"),
        (["rag", "--reader-lora", "4"], "--reader-lora needs a pretrained reader"),
        (["rag", "--answer-length", "0"], "answer-length must be at least 1, got 0"),
        (["rag", "--k", "500"], "k must be from 1 to the corpus's 120 targets"),
        (["compare", "--reader", "tiny", "--rag.kk", "3"], "has no kk"),
        (["compare", "--reader", "tiny", "--rag.seed", "3"], "--rag.seed: use --seed"),
        (
            ["compare", "--reader", "tiny", "--hard-negatives", "9"],
            "--hard-negatives has no effect with a --reader",
        ),
        (["rag", "--trainer.max_steps", "9"], "--trainer.max_steps: use --steps"),
        (["rag", "--trainer.num_train_epochs", "3"], "--trainer.num_train_epochs: use --steps"),
        (["compare", "--rag.k", "3"], "belong to a comparison with a --reader"),
    ],
)
def test_bad_flags_are_one_clear_line(
    beir: Path, bert_folder: Path, tmp_path: Path, capsys, words: list[str], message: str
) -> None:
    name = "--retriever" if words[0] == "rag" else "--model"
    output = tmp_path / "run"
    words = [*words, "--data", str(beir), name, str(bert_folder), "--output", str(output)]
    assert main(words) == 2
    assert message in capsys.readouterr().err
    assert not output.exists()


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--k", "500"], "--k must be from 1 to the corpus's 120 targets, got 500"),
        (["--batch-size", "900"], "a batch of 900 needs at least 900 training questions"),
        (["--eval-split", "none"], "has no split 'none'"),
    ],
)
def test_data_is_checked_before_models_are_loaded(
    beir: Path, tmp_path: Path, monkeypatch, capsys, flags: list[str], message: str
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a model was loaded")

    monkeypatch.setattr("unstale.cli.rag.open_encoder", refuse)
    words = ["rag", "--data", str(beir), "--output", str(tmp_path / "run"), *flags]
    assert main(words) == 2
    assert message in capsys.readouterr().err


def test_a_comparison_leaves_to_rag_what_it_was_not_told() -> None:
    """The same defaults in `compare`, `rag` and Python."""
    usual, python = vars(RagFlags()), vars(RagSettings())
    compared = vars(rag_flags(CompareFlags(reader="tiny", data="facts")))
    assert compared == usual
    assert {name: usual[name] for name in python} == python
    assert rag_flags(CompareFlags(reader="tiny", batch_size=6)).batch_size == 6


def test_ask_what_is_no_run(tmp_path: Path, capsys) -> None:
    assert main(["answer", "who?", "--run", str(tmp_path)]) == 2
    assert "is not a finished training run (no model/)" in capsys.readouterr().err
