"""From questions and retrieved targets to answers, by either way of joining targets."""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from unstale.rag.reader import Encoded, Reader, reader_input
from unstale.rag.settings import Fusion

_PAIRS = 256  # (answer, target) pairs that are scored at once


@torch.no_grad()
def answer(
    reader: Reader,
    questions: Sequence[str],
    targets: Sequence[Sequence[str]] | None,
    log_p: Float[Tensor, "b k"] | None = None,
    *,
    fusion: Fusion = "fid",
) -> list[str]:
    """Answer each question from its targets.

    Args:
        targets: The same number k of texts for each; None to answer from memory.
        log_p: log P(y|x) of those targets, which `marginal` needs.
        fusion: `fid` decodes once, looking at all targets; `marginal` lets each target propose an
            answer and takes the one of the greatest sum over y of P(a|y,x) P(y|x).
    """
    if targets is None:
        encoded = reader.encode([reader_input(q, None) for q in questions])
        return reader.generate(encoded)
    k = len(targets[0])
    pairs = [reader_input(q, t) for q, own in zip(questions, targets, strict=True) for t in own]
    encoded = reader.encode(pairs)
    if fusion == "fid":
        return reader.generate(encoded.fused(k))
    assert log_p is not None
    proposed = reader.generate(encoded)
    best = []
    for i in range(len(questions)):
        options = list(dict.fromkeys(proposed[i * k : (i + 1) * k]))
        own = encoded.take(torch.arange(i * k, (i + 1) * k, device=reader.device))
        scores = marginal(reader, own, options, log_p[i].to(reader.device))
        best.append(options[int(scores.argmax())])
    return best


@torch.no_grad()
def marginal(
    reader: Reader, encoded: Encoded, answers: Sequence[str], log_p: Float[Tensor, " k"]
) -> Float[Tensor, " n"]:
    """Return log P_LM(a|x) of some answers to one question, over its k encoded targets."""
    k, device = len(log_p), reader.device
    size = max(1, _PAIRS // k)
    scores = []
    for start in range(0, len(answers), size):
        labels = reader.labels(answers[start : start + size])
        rows = torch.arange(k, device=device).repeat(len(labels))
        each = reader.log_probs(encoded.take(rows), labels.repeat_interleave(k, dim=0))
        scores.append(torch.logsumexp(each.sum(dim=1).view(-1, k) + log_p, dim=1))
    return torch.cat(scores)
