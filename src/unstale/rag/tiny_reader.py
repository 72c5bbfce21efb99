"""The built-in reader: a small T5 that starts from nothing, with a vocabulary of whole words.

For tests, the quick start and small closed worlds; real text needs a pretrained reader.
"""

from collections.abc import Iterable

import torch
from tokenizers import Tokenizer, normalizers, pre_tokenizers, processors
from tokenizers.models import WordLevel
from transformers import PreTrainedTokenizerFast, T5Config, T5ForConditionalGeneration
from transformers.models.t5.modeling_t5 import T5LayerCrossAttention

from unstale.rag.reader import EncoderDecoder, Reader

PAD, END, UNKNOWN = "<pad>", "</s>", "<unk>"
MOST_WORDS = 20_000  # of the vocabulary


def tiny_reader(
    texts: Iterable[str],
    *,
    width: int = 64,
    layers: int = 2,
    max_length: int = 64,
    answer_length: int = 16,
    seed: int = 0,
    device: str | torch.device = "cpu",
) -> Reader:
    """Build an untrained reader whose vocabulary is the words of `texts`.

    Args:
        texts: Questions, targets and answers.
        width: Width of its hidden states.
        layers: Number of layers of its encoder, and of its decoder.
        max_length: Tokens after which a target is cut. The question is never cut.
        answer_length: The most tokens of an answer.
        seed: Random seed of its weights.
        device: Where to put it.
    """
    tokenizer = _word_tokenizer(texts)
    config = T5Config(
        vocab_size=len(tokenizer),
        d_model=width,
        d_kv=width // 4,
        d_ff=2 * width,
        num_heads=4,
        num_layers=layers,
        dropout_rate=0.0,
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.eos_token_id,
    )
    config.decoder_start_token_id = tokenizer.pad_token_id
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = T5ForConditionalGeneration(config)
    _start_copying(model)
    model.to(device)  # type: ignore[arg-type]
    limits = {"max_length": max_length, "answer_length": answer_length}
    return EncoderDecoder(model, tokenizer, usual_lr=3e-3, **limits)


@torch.no_grad()
def _start_copying(model: T5ForConditionalGeneration) -> None:
    """Let the decoder write what it looks at, so that it only has to learn where to look.

    From a random start that takes a small T5 thousands of steps when half of the time the answer
    is not there to be seen.
    """
    for module in model.decoder.modules():
        if isinstance(module, T5LayerCrossAttention):
            module.EncDecAttention.v.weight.copy_(torch.eye(model.model_dim))
            module.EncDecAttention.o.weight.copy_(2 * torch.eye(model.model_dim))


def _word_tokenizer(texts: Iterable[str]) -> PreTrainedTokenizerFast:
    from tokenizers.trainers import WordLevelTrainer

    words = Tokenizer(WordLevel(unk_token=UNKNOWN))
    words.normalizer = normalizers.Lowercase()
    words.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    special = [PAD, END, UNKNOWN]
    words.train_from_iterator(
        texts, WordLevelTrainer(vocab_size=MOST_WORDS, special_tokens=special)
    )
    words.post_processor = processors.TemplateProcessing(
        single=f"$A {END}", special_tokens=[(END, words.token_to_id(END))]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=words, pad_token=PAD, eos_token=END, unk_token=UNKNOWN
    )
