"""`unstale answer`."""

from rich.text import Text

from unstale.cli.finished import FinishedRun
from unstale.cli.options_inspect import AnswerFlags
from unstale.cli.search import print_targets
from unstale.errors import InputError
from unstale.shown import console, shown


def run(chosen: AnswerFlags) -> None:
    """Retrieve for one question with a run's retriever, and answer with its reader."""
    finished = FinishedRun.open(chosen.run, trust_remote_code=chosen.trust_remote_code)
    if not finished.answers:
        raise InputError(f"{chosen.run} is not a finished run of `unstale rag`: it has no reader")
    dataset = finished.load_data()
    said = finished.open_asker(finished.load_trained(), dataset)(chosen.question)
    console().print(Text(shown(said.text or "(no answer)"), style="bold"))
    if len(said.rows):
        columns = {"P(y|x)": [f"{p:.3f}" for p in said.probabilities.tolist()]}
        print_targets(dataset, said.rows.numpy(), columns)
