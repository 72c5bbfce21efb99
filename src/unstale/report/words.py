"""The results in words: what was trained on what, and the few numbers that matter."""

from collections.abc import Sequence

from unstale.report.entries import Group, corrected_group, headline, ranked, spoken
from unstale.report.escape import escape
from unstale.report.numbers import duration
from unstale.report.summary import gap_recovered
from unstale.results import JsonObject, RunResult, number

MEMORISED = 0.25  # recall@1 on training queries less that on others, from which it is said


def key_figures(groups: Sequence[Group], summary: JsonObject) -> list[tuple[str, str]]:
    """Return the few numbers that matter, each with its caption, escaped."""
    metric = headline(groups)
    best = next((g for g in ranked(groups) if g.mean(metric) is not None), None)
    shown = corrected_group(groups) or best
    if shown is None or best is None:
        return []
    figures = []
    if (reached := shown.mean(metric)) is not None:
        caption = f"{spoken(metric)}, {escape(shown.name)}"
        start = shown.average(lambda run: run.initial_metrics.get(metric))
        if shown.trained and start is not None:
            caption += f", from {start:.1%} before training"
        if best is not shown:
            caption += f"; {escape(best.name)} reached {best.mean(metric) or 0:.1%}"
        figures.append((f"{reached:.1%}", caption))
    if gap := gap_recovered(summary, shown.strategy, metric):
        caption = "of the gap from stale to exhaustive recovered"
        if gap.low is not None and gap.high is not None:
            alone = ", over queries alone" if gap.one_seed else ""
            caption += f" (95% interval: {gap.low:.0%} to {gap.high:.0%}{alone})"
        figures.append((f"{gap.value:.0%}", caption))
    if shown.trained:
        if (cost := shown.average(lambda run: run.targets_reembedded)) is not None:
            figures.append((f"{cost:,.0f}", "targets re-embedded during training"))
        if (took := shown.average(lambda run: run.training_seconds)) is not None:
            figures.append((duration(took).replace(" ", "&nbsp;"), "of training"))
    return figures


def sentences(groups: Sequence[Group], data: JsonObject, settings: JsonObject) -> list[str]:
    """Say what was trained on what, and what the caches held: a paragraph each, escaped."""
    runs = [run for g in groups for run in g.runs]
    split, steps = runs[0].split, sorted({run.steps for run in runs})
    words = f"Data: <strong>{escape(data.get('name') or 'unnamed')}</strong>"
    for key, what in (("targets", "targets"), ("train_pairs", "training pairs")):
        if (count := number(data.get(key))) is not None:
            words += f", {count:,.0f} {what}"
    tested = number(data.get(f"{split}_pairs"))
    pairs = "" if tested is None else f" ({tested:,.0f} pairs)"
    words += f"; measured on the {escape(split)} split{pairs}"
    words += ", held out of the training queries." if data.get("held_out") else "."
    if encoder := settings.get("model"):
        words += f" Encoder: <strong>{escape(encoder)}</strong>{_shape(runs)}."
    if any(steps):
        seeds = max(len(g.runs) for g in groups)
        words += f" Strategies: {len(groups)}, trained with {seeds} seed{'s' * (seeds > 1)}"
        words += f" for {' or '.join(f'{s:,}' for s in steps)} steps"
        epochs = sorted({round(run.epochs, 1) for run in runs if run.epochs})
        words += f" ({' or '.join(f'{e:g}' for e in epochs)} epochs)." if epochs else "."
        words += _in_batch(groups)
    total = [s for run in runs if (s := run.total_seconds) is not None]
    words += f" It took {duration(sum(total))} in all." if total else ""
    shares = [(g, seen) for g in groups if (seen := g.average(lambda run: run.seen)) is not None]
    words += _memorised(groups)
    if not shares:
        return [words]
    listed = ", ".join(f"{escape(g.name)} <strong>{seen:.0%}</strong>" for g, seen in shares)
    held = "Share of the true nearest targets that the searched cache held at the end of training"
    return [words, f"{held}: {listed}."]


def _shape(runs: Sequence[RunResult]) -> str:
    """Say how many layers the encoder has, and after how many tokens it cuts texts, if known."""
    shape = next((run.shape for run in runs if run.shape), {})
    said = [f"{shape['layers']} layers"] if "layers" in shape else []
    for side in ("query", "target"):
        if f"{side}_tokens" in shape:
            said.append(f"{side} cut after {shape[f'{side}_tokens']} tokens")
    return f" ({', '.join(said)})" if said else ""


def _in_batch(groups: Sequence[Group]) -> str:
    """Say whether in-batch negatives, which need no mining, did as well."""
    metric, names = headline(groups), [g.strategy for g in groups]
    if "in-batch" not in names:
        rule = "<code>unstale compare --strategies in-batch,...</code> shows what mining is worth"
        return f" In-batch negatives, the cheapest strategy, were not tried: {rule}."
    plain = next(g.mean(metric) for g in groups if g.strategy == "in-batch")
    better = [g.name for g in groups if plain is not None and (g.mean(metric) or 0.0) > plain]
    if not better:
        return f" No strategy reached a higher {spoken(metric)} than in-batch negatives."
    listed = ", ".join(map(escape, better))
    return f" A higher {spoken(metric)} than with in-batch negatives: {listed}."


def _memorised(groups: Sequence[Group]) -> str:
    """Say which strategies do far better on queries that they were trained on."""
    said = []
    for group in groups:
        known, new = group.average(lambda run: run.trained("recall@1")), group.mean("recall@1")
        if known is not None and new is not None and known - new >= MEMORISED:
            said.append(f"{escape(group.name)} ({known:.0%} and {new:.0%})")
    if not said:
        return ""
    split = escape(groups[0].runs[0].split)
    rule = f"a much higher recall@1 on training queries than on {split} queries"
    return f" Memorised training pairs, with {rule}: {', '.join(said)}."
