"""What a finished training run knows: its flags, its data, its stale buffer, its corrector."""

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, final, get_args

from safetensors import safe_open
from sentence_transformers import SentenceTransformer

from unstale.budget import read_object
from unstale.buffer.buffer import TargetBuffer
from unstale.buffer.embed import embed_corpus
from unstale.buffer.fingerprint import fingerprint
from unstale.cli.by_command import check_run, config_with_data
from unstale.cli.options import EncoderFlags, ShapeFlags
from unstale.cli.read import open_encoder
from unstale.corrector.network import Corrector
from unstale.data.dataset import RetrievalDataset
from unstale.data.load import load_dataset
from unstale.encoders.load import load_encoder
from unstale.encoders.tokenise import target_tokens
from unstale.errors import InputError
from unstale.integrity import SEAL, check_seal
from unstale.rag.ask import Asker
from unstale.rag.job import ANSWERING
from unstale.rag.load import load_questions
from unstale.rag.load_reader import load_reader
from unstale.rag.settings import Fusion
from unstale.results import CORRECTOR, number

_USED = ("model", "reader", ANSWERING)
INDEX = "index"  # the corpus as the trained model embeds it, kept: the next search starts at once


@final
@dataclass(frozen=True)
class FinishedRun:
    """A run that has a model, with the flags that it was given."""

    folder: Path
    config: dict[str, Any]
    trust_remote_code: bool  # of the command that looks at the run, never of the run

    @classmethod
    def open(cls, path: str, *, trust_remote_code: bool) -> "FinishedRun":
        """Read the flags of a run; those of a comparison's cell are its comparison's.

        Of a finished run, every byte of its models must be as it was written.
        """
        owner = check_run(path)
        if (owner / SEAL).is_file():
            inner = Path(path).resolve().relative_to(owner.resolve())
            card = (inner / "model" / "README.md").as_posix()  # people write into it
            check_seal(owner, of=[(inner / part).as_posix() for part in _USED], but=[card])
        return cls(Path(path), config_with_data(owner), trust_remote_code)

    @property
    def answers(self) -> bool:
        """Tell whether the run has a reader that answers."""
        return (self.folder / ANSWERING).is_file()

    def load_data(self) -> RetrievalDataset:
        """Load the data that the run was trained on."""
        data = self.config["data"]
        if not self.answers:
            return load_dataset(data, progress=False)
        corpus = self.config.get("corpus") or (self.config.get("rag") or {}).get("corpus")
        return load_questions(data, corpus=corpus, progress=False).dataset

    def load_trained(self) -> SentenceTransformer:
        """Load the encoder that the run trained."""
        return load_encoder(str(self.folder / "model"), **self._machine)

    def load_base(self) -> SentenceTransformer:
        """Load the encoder that the run started from, in the shape that it was trained in."""
        name = str(self.config.get("retriever") or self.config.get("model"))
        shape: dict[str, Any] = {f.name: self.config.get(f.name) for f in fields(ShapeFlags)}
        return open_encoder(EncoderFlags(model=name, **shape | self._machine))

    def open_index(
        self, model: SentenceTransformer, dataset: RetrievalDataset, name: str = INDEX
    ) -> TargetBuffer:
        """Open the corpus as one of the run's encoders embeds it, or embed it once."""
        made_by, tokens = fingerprint(model, dataset.targets), target_tokens(model, dataset)
        return embed_corpus(model, tokens, self.folder / name, made_by)[0]

    def open_asker(self, model: SentenceTransformer, dataset: RetrievalDataset) -> Asker:
        """Load what `unstale rag` trained: the reader, and the corpus if it retrieves."""
        how = read_answering(self.folder / ANSWERING)
        reader = load_reader(
            str(self.folder / "reader"),
            max_length=how["max_length"],
            answer_length=how["answer_length"],
            **self._machine | {"device": model.device},
        ).eval()
        buffer = self.open_index(model, dataset) if how["k"] else None
        return Asker(model, reader, dataset, buffer, how)

    @property
    def _machine(self) -> dict[str, Any]:
        return {
            "device": self.config.get("device"),
            "trust_remote_code": self.trust_remote_code,
        }


def read_answering(path: Path) -> dict[str, Any]:
    """Read how a run answers, or say what is wrong with it."""
    how = read_object(path)
    counts = {"k": 0, "max_length": 2, "answer_length": 1}  # and the least of each
    good = all(isinstance(how.get(n), int) and how[n] >= least for n, least in counts.items())
    if not good or how.get("fusion") not in get_args(Fusion) or number(how.get("scale")) is None:
        raise InputError(f"{path} does not say how the run answers")
    return how


def run_corrector(run: str, width: int) -> Corrector:
    """Load the corrector of a run, for vectors of a width."""
    path = Path(run) / CORRECTOR
    with safe_open(path, "pt") as file:
        state = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        unit = (file.metadata() or {}).get("unit") == "True"
    layers = {f"layers.{k.split('layers.')[1]}": v for k, v in state.items() if "layers." in k}
    if not layers:
        raise InputError(f"{path} holds no corrector")
    hidden = [len(layers[f"layers.{i}.weight"]) for i in range(len(layers) // 2 - 1)]
    found = layers["layers.0.weight"].shape[1]
    if found != width:
        raise InputError(f"{path} takes vectors of width {found}, not {width}")
    corrector = Corrector(found, hidden, unit=unit)
    corrector.load_state_dict(layers)
    return corrector.eval()
