"""A buffer on disk: written once, opened memory-mapped, refused to whoever did not make it."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from sentence_transformers import SentenceTransformer
from tests.kill import Killer

from unstale.buffer.buffer import TargetBuffer, read_manifest, write_manifest, write_shard
from unstale.buffer.embed import embed_corpus
from unstale.buffer.fingerprint import fingerprint
from unstale.cli.main import main
from unstale.data.dataset import RetrievalDataset, Texts
from unstale.encoders.embed import embed_targets
from unstale.encoders.load import load_encoder
from unstale.encoders.tokenise import target_tokens
from unstale.errors import InputError
from unstale.integrity import sha256
from unstale.training.settings import TrainSettings


def write(
    model: SentenceTransformer, dataset: RetrievalDataset, folder: Path, **options
) -> tuple[TargetBuffer, int]:
    tokens = target_tokens(model, dataset, progress=False)
    made_by = fingerprint(model, dataset.targets)
    return embed_corpus(model, tokens, folder, made_by, progress=False, **options)


@pytest.mark.parametrize(
    ("dtype", "error"), [("float32", 0.0), ("float16", 1e-3), ("int8", 0.5 / 127)]
)
def test_shards_hold_every_targets_embedding(
    static_model: SentenceTransformer,
    dataset: RetrievalDataset,
    tmp_path: Path,
    dtype: str,
    error: float,
) -> None:
    buffer, embedded = write(static_model, dataset, tmp_path / "b", dtype=dtype, shard_rows=50)
    assert (len(buffer), buffer.dim, embedded) == (120, 16, 120)
    assert [len(s) for s in buffer.shards] == [50, 50, 20]
    tokens = target_tokens(static_model, dataset, progress=False)
    fresh = embed_targets(static_model, tokens, np.arange(120))
    torch.testing.assert_close(buffer[torch.arange(120)], fresh, atol=error, rtol=0)
    rows = torch.tensor([119, 0, 51, 50, 49])
    assert torch.equal(buffer[rows], buffer[torch.arange(120)][rows])
    chunks = list(buffer.chunks(33))
    assert [start for start, _ in chunks] == [0, 33, 50, 83, 100]
    assert torch.equal(torch.cat([c for _, c in chunks]), buffer[torch.arange(120)])
    assert torch.equal(buffer.in_memory()[rows], buffer[rows])


def test_int8_keeps_a_quarter_and_can_be_refreshed(
    beir: Path, bert_folder: Path, tmp_path: Path
) -> None:
    run, model = tmp_path / "run", ["--data", str(beir), "--model", str(bert_folder)]
    for dtype in ("float32", "int8"):
        assert main(["embed", *model, "--output", str(tmp_path / dtype), "--dtype", dtype]) == 0
    full, small = (TargetBuffer.open(tmp_path / dtype) for dtype in ("float32", "int8"))
    assert small.nbytes == full.nbytes / 4 + 4 * len(full)  # and a scale for each row
    error = (small[torch.arange(120)] - full[torch.arange(120)]).abs().amax(dim=1)
    assert (error <= full[torch.arange(120)].abs().amax(dim=1) / 253).all()
    flags = "--steps 1 --batch-size 4 --hard-negatives 2 --corrector-hidden 8 --device cpu".split()
    train = ["train", *model, "--output", str(run), *flags]
    reused = ["--buffer", str(tmp_path / "int8"), "--overwrite"]
    for strategy in ("exhaustive", "corrected", "staged"):
        assert main([*train, "--strategy", strategy, *reused]) == 0
        (entry,) = json.loads((run / "results.json").read_text())["runs"]
        assert entry["targets_embedded"] == 0  # one step is too short to mine


def test_a_scale_that_is_no_number_is_found_on_opening(
    static_model: SentenceTransformer, dataset: RetrievalDataset, tmp_path: Path
) -> None:
    write(static_model, dataset, tmp_path / "b", dtype="int8", shard_rows=50)
    shard = tmp_path / "b" / "shard-00001.safetensors"
    tensors = load_file(shard)
    tensors["scales"][3] = torch.nan
    save_file(tensors, shard)
    with pytest.raises(InputError, match=r"shard-00001.safetensors: a scale is not a number"):
        TargetBuffer.open(tmp_path / "b")


def test_a_finished_buffer_is_reused(
    static_model: SentenceTransformer, dataset: RetrievalDataset, tmp_path: Path
) -> None:
    first, _ = write(static_model, dataset, tmp_path / "b")
    again, embedded = write(static_model, dataset, tmp_path / "b")
    assert embedded == 0
    assert torch.equal(first[torch.arange(120)], again[torch.arange(120)])


def test_a_fingerprint_does_not_change_by_use(bert_folder: Path, dataset: RetrievalDataset) -> None:
    model = load_encoder(str(bert_folder), device="cpu")
    before = fingerprint(model, dataset.targets)
    model.encode_query(["one", "a longer two"])
    target_tokens(model, dataset, progress=False)
    assert fingerprint(model, dataset.targets) == before


def test_separate_towers_that_start_equal_share_a_buffer(
    bert_folder: Path, dataset: RetrievalDataset
) -> None:
    tied = load_encoder(str(bert_folder), device="cpu")
    separate = load_encoder(str(bert_folder), towers="separate", device="cpu")
    assert fingerprint(tied, dataset.targets) == fingerprint(separate, dataset.targets)


@pytest.mark.parametrize("change", ["weights", "modules", "texts", "prompt", "max_length"])
def test_a_buffer_of_something_else_is_refused_and_says_what_differs(
    bert_folder: Path, dataset: RetrievalDataset, tmp_path: Path, change: str
) -> None:
    model = load_encoder(str(bert_folder), device="cpu")
    write(model, dataset, tmp_path / "b")
    targets = dataset.targets
    if change == "weights":
        with torch.no_grad():
            next(model.parameters()).view(-1)[5] += 1e-3
    elif change == "modules":
        model[1].pooling_mode = "cls"
    elif change == "texts":
        texts = [t for _, c in targets.chunks(120) for t in c]
        targets = Texts.of([texts[1], texts[0], *texts[2:]])
    elif change == "prompt":
        model = load_encoder(str(bert_folder), target_prompt="say: ", device="cpu")
    else:
        model = load_encoder(str(bert_folder), target_max_length=7, device="cpu")
    with pytest.raises(InputError, match=f"made by something else. {change}: the buffer has"):
        TargetBuffer.open(tmp_path / "b", fingerprint(model, targets))


def test_damage_is_named(
    static_model: SentenceTransformer, dataset: RetrievalDataset, tmp_path: Path
) -> None:
    folder = tmp_path / "b"
    write(static_model, dataset, folder, shard_rows=50)
    shard = folder / "shard-00001.safetensors"
    whole = shard.read_bytes()
    shard.write_bytes(whole[:-7])
    with pytest.raises(InputError, match=r"shard-00001\.safetensors has .* bytes"):
        TargetBuffer.open(folder)
    shard.unlink()
    with pytest.raises(InputError, match=r"lacks its shard shard-00001"):
        TargetBuffer.open(folder)
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["shards"][1]["file"] = "../secret"
    (folder / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(InputError, match="its own checksum does not fit"):
        TargetBuffer.open(folder)
    del manifest["sha256"]
    write_manifest(folder, manifest)  # by somebody who knows how
    with pytest.raises(InputError, match=r"outside the folder: '\.\./secret'"):
        TargetBuffer.open(folder)
    (folder / "manifest.json").write_text("{}")
    with pytest.raises(InputError, match="not the manifest"):
        TargetBuffer.open(folder)
    with pytest.raises(InputError, match="not a buffer"):
        TargetBuffer.open(tmp_path)


def test_a_killed_embedding_goes_on_where_it_was(kill: Killer, beir: Path, tmp_path: Path) -> None:
    folder = tmp_path / "b"
    words = ["embed", "--data", str(beir), "--model", "tiny", "--device", "cpu"]
    words += ["--shard-rows", "20", "--output", str(folder)]
    kill(words, "unstale.buffer.embed:write_shard", 3)
    shards = json.loads((folder / "manifest.json").read_text())["shards"]
    finished = [s for s in shards if "sha256" in s]
    assert len(finished) == 2
    with pytest.raises(InputError, match="unfinished"):
        TargetBuffer.open(folder)

    from unstale.data.formats.beir import read_beir

    dataset, model = read_beir(beir), load_encoder("tiny", device="cpu")
    resumed, embedded = write(model, dataset, folder, shard_rows=20)
    assert embedded == 120 - 20 * 2
    whole, _ = write(model, dataset, tmp_path / "whole", shard_rows=20)
    assert torch.equal(resumed[torch.arange(120)], whole[torch.arange(120)])


def test_a_nan_is_stopped_before_it_is_written(
    static_model: SentenceTransformer, dataset: RetrievalDataset, tmp_path: Path
) -> None:
    with torch.no_grad():
        static_model[0].embedding.weight.fill_(float("nan"))
    with pytest.raises(InputError, match="NaN or infinity for the target in row 0"):
        write(static_model, dataset, tmp_path / "b")
    assert not list((tmp_path / "b").glob("shard-*"))


def resealed(folder: Path) -> None:
    """Give every shard the checksum of what it holds now, as a hostile or careless hand would."""
    manifest = read_manifest(folder)
    for shard in manifest["shards"]:
        shard["sha256"] = sha256(folder / shard["file"])
    write_manifest(folder, manifest)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_a_buffer_with_nan_is_refused_when_it_is_reused(
    dtype: str, static_model: SentenceTransformer, dataset: RetrievalDataset, tmp_path: Path
) -> None:
    folder = tmp_path / "b"
    write(static_model, dataset, folder, dtype=dtype, shard_rows=50)
    vectors = load_file(folder / "shard-00001.safetensors")["vectors"]
    vectors[7] = torch.nan
    save_file({"vectors": vectors}, folder / "shard-00001.safetensors")
    with pytest.raises(InputError, match="checksum"):
        TargetBuffer.open_checked(folder)
    resealed(folder)
    with pytest.raises(InputError, match="NaN or infinity in row 57"):
        TargetBuffer.open_checked(folder)


def test_swapped_shards_are_refused(
    static_model: SentenceTransformer, dataset: RetrievalDataset, tmp_path: Path
) -> None:
    folder = tmp_path / "b"
    write(static_model, dataset, folder, shard_rows=40)
    first, second = folder / "shard-00000.safetensors", folder / "shard-00001.safetensors"
    first.rename(folder / "x")
    second.rename(first)
    (folder / "x").rename(second)
    with pytest.raises(InputError, match=r"shard-00000\.safetensors is damaged"):
        TargetBuffer.open_checked(folder)
    with pytest.raises(InputError, match=r"shard-00000\.safetensors is damaged"):
        write(static_model, dataset, folder, shard_rows=40)  # as a resumed run opens it
    settings = TrainSettings(buffer=folder, batch_size=8)
    with pytest.raises(InputError, match=r"shard-00000\.safetensors is damaged"):
        settings.check(dataset, static_model)


def test_what_float16_cannot_hold_is_not_written(tmp_path: Path) -> None:
    large = torch.full((3, 4), 70_000.0)
    with pytest.raises(InputError, match=r"an entry of 7e\+04 is beyond 65504; use float32"):
        write_shard(tmp_path / "s.safetensors", large, "float16")
    assert not list(tmp_path.iterdir())
    for dtype in ("float32", "int8"):
        write_shard(tmp_path / f"{dtype}.safetensors", large, dtype)
