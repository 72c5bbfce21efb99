"""From a folder or a hub name to a reader."""

import torch
from torch import nn
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoModelForSeq2SeqLM,
    AutoTokenizer,
)

from unstale.encoders.declared import check_writes
from unstale.encoders.load import silence_dropout
from unstale.errors import InputError
from unstale.rag.decoder_only import DecoderOnly
from unstale.rag.reader import EncoderDecoder, Reader


def load_reader(
    name: str,
    *,
    max_length: int = 256,
    answer_length: int = 64,
    dropout: bool = False,
    lora: int = 0,
    device: str | torch.device = "cpu",
    trust_remote_code: bool = False,
) -> Reader:
    """Load a reader from a folder or by its hub name, or say why it cannot be one.

    It may be a sequence-to-sequence model, or one that has a decoder only.

    Args:
        name: A folder or a hub name.
        max_length: Tokens after which a target is cut. The question is never cut.
        answer_length: The most tokens of an answer.
        dropout: Keep the model's dropout while training.
        lora: Rank of the adapters to train instead of the weights (LoRA); 0 trains the weights.
        device: Where to put it.
        trust_remote_code: Let a hub model run code of its own.
    """
    trusted = {"trust_remote_code": trust_remote_code}
    try:
        config = AutoConfig.from_pretrained(name, **trusted)
        both = config.is_encoder_decoder
        check_writes(name, config.model_type, config.architectures or (), both=both)
        tokenizer = AutoTokenizer.from_pretrained(name, **trusted)
        loader = AutoModelForSeq2SeqLM if config.is_encoder_decoder else AutoModelForCausalLM
        model = loader.from_pretrained(name, **trusted)
    except InputError:
        raise
    except Exception as error:  # of many kinds, whatever is damaged in its files
        reason = (str(error).strip().splitlines() or [repr(error)])[0]
        raise InputError(f"cannot load the reader {name!r} ({reason})") from error
    if config.is_encoder_decoder and tokenizer.pad_token_id is None:
        raise InputError(f"the tokenizer of {name} has no pad token: inputs cannot be batched")
    head = model.get_output_embeddings()
    shared = [m.weight for m in model.modules() if isinstance(m, nn.Embedding)]
    if head is not None and not any(head.weight is weight for weight in shared):
        model.config.tie_word_embeddings = False  # as its weights are, whatever its config says
    model = model.float().to(device)
    if not dropout:
        silence_dropout(model)
    kind = EncoderDecoder if config.is_encoder_decoder else DecoderOnly
    reader = kind(model, tokenizer, max_length=max_length, answer_length=answer_length)
    if lora:
        reader.add_lora(lora)
    return reader
