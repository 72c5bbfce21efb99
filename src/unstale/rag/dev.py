"""By which questions are a run's weights chosen, and what decides between them?"""

import logging
from collections.abc import Sequence

import numpy as np
from jaxtyping import Int
from numpy import ndarray

from unstale.distributed import rank
from unstale.errors import InputError
from unstale.rag.questions import QuestionSet
from unstale.rag.settings import RagSettings
from unstale.training.best import Look

_LOG = logging.getLogger(__name__)
LOOKS = 5  # at the dev questions, evenly spread over a run
_HELD_OUT = 0.1  # of the training questions, where there is no dev split


def choose_dev(
    questions: QuestionSet, settings: RagSettings, batch_size: int
) -> tuple[Int[ndarray, " q"], Int[ndarray, " d"]]:
    """Return the questions to train on, and those that the best weights are chosen by.

    Those are of the split dev; without one, or if dev is what the run is measured on, a tenth of
    the training questions is held out.
    """
    train, most = questions.rows("train"), settings.dev_questions
    if not most:
        return train, train[:0]
    random = np.random.default_rng(0)
    if "dev" in questions.splits and settings.eval_split != "dev":
        dev = questions.rows("dev")
        return train, np.sort(random.permutation(dev)[:most])
    held = min(most, round(_HELD_OUT * len(train)))
    if len(train) - held < batch_size or not held:
        rule = "give a dev split, more questions, a smaller --batch-size, or --dev-questions 0"
        have = f"{questions.dataset.name} has {len(train)} training questions and no dev split"
        raise InputError(f"{have}: too few to hold some out for choosing the weights; {rule}")
    why = "is what the run is measured on" if "dev" in questions.splits else "does not exist"
    said = "%s: the split dev %s; %d of the %d training questions are held out in its place"
    if rank() == 0:
        _LOG.warning(said, questions.dataset.name, why, held, len(train))
    order = random.permutation(train)
    return np.sort(order[held:]), np.sort(order[:held])


def score(look: Look) -> tuple[float, float]:
    """Return what decides between two looks: exact match, and F1 where it is equal."""
    return look["exact_match"], look["f1"]


def kept_step(looks: Sequence[Look]) -> int:
    """Return the step of the best look; of equals the last."""
    return int(max(looks, key=lambda look: (*score(look), look["step"]))["step"])
