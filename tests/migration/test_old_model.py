"""Are the rows of an index what the old model makes of their texts?"""

import logging

import pytest
import torch
from torch.nn.functional import normalize

from unstale.errors import InputError
from unstale.migration.order import check_old_model

NOISE = normalize(torch.randn(300, 64, generator=torch.Generator().manual_seed(0)), dim=1)
EMBEDDED = normalize(torch.randn(300, 64, generator=torch.Generator().manual_seed(1)), dim=1)


def test_the_same_model_passes_and_another_release_is_warned_of(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING)
    assert check_old_model(EMBEDDED, EMBEDDED, "x.npy") == pytest.approx(1)
    assert not caplog.text
    near = normalize(EMBEDDED + 0.5 * NOISE, dim=1)
    assert 0.8 < check_old_model(EMBEDDED, near, "x.npy") < 0.98
    assert "another length limit" in caplog.text


def test_another_model_is_refused_even_if_it_finds_the_same_neighbours() -> None:
    far = normalize(EMBEDDED + 3 * NOISE, dim=1)  # each is still the nearest to its own
    with pytest.raises(InputError, match=r"mean cosine of 0\.3\d\d .* it is another model"):
        check_old_model(EMBEDDED, far, "x.npy")
    with pytest.raises(InputError, match="are not what --old-model makes"):
        check_old_model(EMBEDDED, EMBEDDED.roll(1, 0), "x.npy")
