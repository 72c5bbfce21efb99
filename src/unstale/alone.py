"""Which settings make no sense, whatever the data and the model are? Nothing heavy is imported."""

from dataclasses import fields

from unstale.declare import check_bounds
from unstale.errors import InputError
from unstale.filters import Filters
from unstale.schedule import Schedule
from unstale.settings import LengthSettings, MiningSettings


def check_alone(settings: MiningSettings) -> None:
    """Refuse values that are out of bounds, and settings that exclude each other."""
    check_bounds(settings)
    if isinstance(settings, LengthSettings) and settings.steps and settings.epochs:
        both = f"--steps {settings.steps} and --epochs {settings.epochs}"
        raise InputError(f"{both}: use one of them")
    if any(width < 1 for width in settings.corrector_widths):
        raise InputError(
            f"--corrector-hidden needs widths of at least 1, got {settings.corrector_hidden}"
        )
    if settings.refresh_schedule is not None:
        Schedule.parse(settings.refresh_schedule)
        if settings.refresh_every is not None:
            raise InputError("use --refresh-every or --refresh-schedule, not both")
    for declared in fields(settings):
        if declared.name == "filters":
            filters = getattr(settings, declared.name)
            if not isinstance(filters, Filters):
                raise InputError(f"filters must be Filters(...), got {filters!r}")
            filters.check(1, declared.metadata.get("refused", ()))
