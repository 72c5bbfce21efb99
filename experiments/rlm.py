"""The paper's table of exact match: retriever and reader trained together on three QA sets.

    python experiments/rlm.py --data NQ_FOLDER --set nq --start gtr --method corrected
    python experiments/rlm.py --table                          # the paper's numbers

A folder holds the corpus (psgs_w100.tsv, or a .jsonl of passages; the paper has 28M of 256 tokens)
and the questions as their authors publish them: NQ-open.train.jsonl and NQ-open.dev.jsonl,
TriviaQA's unfiltered-web-train.json and -dev.json, HotPotQA's hotpot_train_v1.1.json and
hotpot_dev_fullwiki_v1.json. The validation set is measured, as in the paper. Any flag of
`unstale rag` is passed on, and wins.
"""

import argparse
import shlex
import sys
from typing import Any

from paper import STARTS

from unstale.cli.main import main as unstale
from unstale.report.markdown import markdown_table

SETS = {"nq": "dev", "tqa": "dev", "hpqa": "hotpot_dev_fullwiki_v1"}  # what each calls validation
# Re-embedded, and exact match on the three sets; no retrieval has no start.
PAPER = {
    ("none", ""): ("0", 25.4, 26.1, 14.5),
    ("frozen", "gtr"): ("0", 48.4, 55.1, 28.0),
    ("corrected", "gtr"): ("0", 52.3, 66.4, 36.7),
    ("exhaustive", "gtr"): ("1.1B", 52.4, 66.5, 33.8),
    ("frozen", "t5"): ("0", 13.34, 12.15, 13.37),
    ("corrected", "t5"): ("0", 48.1, 63.73, 21.97),
    ("exhaustive", "t5"): ("1.1B", 48.3, 66.03, 25.45),
}
METHODS = tuple(dict.fromkeys(method for method, _ in PAPER))
SETTINGS: dict[str, Any] = {
    "towers": "separate",
    "reader": "google-t5/t5-base",
    "k": 32,
    "fusion": "fid",
    "refreshes": 40,  # 1.1B = 28M x 40, so that 20,000 steps have one after every 500
    "steps": 20_000,
    "corrector-loss": "ce",  # with the next two: the paper's method to the letter
    "no-memory": None,
    "no-fallback": None,
    "search": "exact",
    "target-max-length": 256,
    # The paper gives none of these.
    "corrector-hidden": 8192,
    "batch-size": 64,
    "learning-rate": 1e-4,
    "corrector-lr": 1e-4,
    "reader-lr": 1e-4,
    "query-max-length": 32,
    "reader-max-length": 320,
    "answer-length": 32,
    "dtype": "float16",
    "save-steps": 500,
    "trainer.bf16": "true",
}


def command(chosen: argparse.Namespace, more: list[str]) -> list[str]:
    """Write a cell of the table as the words of `unstale rag`."""
    output = chosen.output or f"runs/rlm-{chosen.set}-{chosen.start}-{chosen.method}"
    flags = {"data": chosen.data, "retriever": STARTS[chosen.start], "strategy": chosen.method}
    flags |= {"eval-split": SETS[chosen.set], **SETTINGS, "output": output}
    given = {word.partition("=")[0] for word in more}
    words = ["rag"]
    for name, value in flags.items():
        if f"--{name}" not in given:
            words += [f"--{name}"] if value is None else [f"--{name}", str(value)]
    return [*words, *more]


def table() -> str:
    """Write the paper's table."""
    rows = [[f"{m} {s}".strip(), n, *map(str, found)] for (m, s), (n, *found) in PAPER.items()]
    return markdown_table(["", "re-embedded", "NQ", "TriviaQA", "HotPotQA"], rows)


def main() -> int:
    """Read the flags, print the resolved command, and train."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )  # fmt: skip
    parser.add_argument("--data", help="a folder of questions and a corpus")
    parser.add_argument("--set", choices=list(SETS), default="nq")
    parser.add_argument("--start", choices=list(STARTS), default="gtr")
    parser.add_argument("--method", choices=METHODS, default="corrected")
    parser.add_argument("--output", help="default: runs/rlm-SET-START-METHOD")
    parser.add_argument("--dry-run", action="store_true", help="only print the command")
    parser.add_argument("--table", action="store_true", help="only print the paper's numbers")
    chosen, more = parser.parse_known_args()
    if chosen.table:
        print(table())
        return 0
    if not chosen.data:
        parser.error("--data is required")
    words = command(chosen, more)
    print(f"unstale {shlex.join(words)}", flush=True)
    return 0 if chosen.dry_run else unstale(words)


if __name__ == "__main__":
    sys.exit(main())
