"""From questions and retrieved targets to answers, by either way of joining targets."""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from unstale.rag.losses import answer_scores
from unstale.rag.reader import IGNORED, Encoded, Reader, reader_input
from unstale.rag.settings import Fusion


@torch.no_grad()
def answer(
    reader: Reader,
    questions: Sequence[str],
    targets: Sequence[Sequence[str]] | None,
    log_p: Float[Tensor, "b k"] | None = None,
    *,
    fusion: Fusion = "fid",
    beams: int = 1,
) -> list[str]:
    """Answer each question from its targets.

    Args:
        reader: The reader.
        questions: Their texts.
        targets: The same number k of texts for each; None to answer from memory.
        log_p: log P(y|x) of those targets, which `marginal` needs.
        fusion: `fid` decodes once, looking at all targets; `marginal` lets each target propose an
            answer and takes the one of the greatest sum over y of P(a|y,x) P(y|x).
        beams: More than one for beam search.
    """
    if targets is None:
        encoded = reader.encode([reader_input(q, None) for q in questions])
        return reader.generate(encoded, beams=beams)
    k = len(targets[0])
    pairs = [reader_input(q, t) for q, own in zip(questions, targets, strict=True) for t in own]
    encoded = reader.encode(pairs)
    if fusion == "fid":
        return reader.generate(encoded.fused(k), beams=beams)
    assert log_p is not None
    proposed = reader.generate(encoded, beams=beams)
    device = reader.device
    best = []
    for i in range(len(questions)):
        options = list(dict.fromkeys(proposed[i * k : (i + 1) * k]))
        own = encoded.take(torch.arange(i * k, (i + 1) * k, device=device))
        scores = [marginal(reader, own, option, log_p[i].to(device)) for option in options]
        best.append(options[int(torch.stack(scores).argmax())])
    return best


@torch.no_grad()
def marginal(
    reader: Reader, encoded: Encoded, text: str, log_p: Float[Tensor, " k"]
) -> Float[Tensor, ""]:
    """Return log P_LM(a|x) of one answer to one question, over its k encoded targets."""
    labels = reader.labels([text]).repeat(len(log_p), 1)
    scores = answer_scores(reader.log_probs(encoded, labels), labels != IGNORED, "sequence")
    return torch.logsumexp(scores + log_p, dim=0)
