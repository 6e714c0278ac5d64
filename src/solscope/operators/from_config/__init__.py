"""From the role of a kernel and a model's config to an entry of the catalog and its axes.

Where a profile has no shapes (graph replays), the config of the model as hubs publish it has the
widths, and the step the number of tokens. `axes_of` looks the role up in a table of small functions
that return an operator and its axes, or raise `UnclearError` with the reason. All counts are the
least that the config allows: layers are shared by all ranks of the profile, routing takes the
fewest experts, results that a kernel may keep on the chip are not counted.
"""

from __future__ import annotations

from solscope.operators.calls.call import OperatorAxes
from solscope.operators.from_config import attention, products, small
from solscope.operators.from_config.config import Config, Model, load_model, parse_model
from solscope.operators.from_config.use import RoleCall, RoleRule, Use
from solscope.operators.tensors import UnclearError

__all__ = ["ROLE_RULES", "Config", "Model", "RoleCall", "axes_of", "load_model", "parse_model"]

GATED = frozenset(
    (
        *("llama", "mistral", "mixtral", "qwen2", "qwen2_moe", "qwen3", "qwen3_moe", "gpt_oss"),
        *("gemma2", "gemma3_text", "phi3", "deepseek_v2", "deepseek_v3", "olmo2", "granite"),
        "qwen3_next",
    )
)
"""Values of `model_type` whose layers are those described here: rotary attention, a gated MLP.
`qwen3_next` has layers of linear attention, too."""

ROLE_RULES: dict[str, RoleRule] = {**products.RULES, **attention.RULES, **small.RULES}
"""Roles that a config gives a cost; the gates of linear attention have none."""


def axes_of(call: RoleCall, model: Model) -> OperatorAxes | str:
    """The operator and axes of a role, or the reason why the config does not determine them."""
    config = model.config
    if config.model_type not in GATED:
        return f"the layers of model_type {config.model_type[:40]!r} are not known"
    try:
        return ROLE_RULES[call.role](Use(call, model))
    except UnclearError as error:
        return str(error)
    except ArithmeticError:
        return "the sizes of the step are not those of a run through the model"
