"""The place of a mechanism in a network, and the shapes that every mechanism shares."""

from dataclasses import dataclass

from jaxtyping import Bool, Float
from torch import Tensor

from rearview.core.errors import SettingsError
from rearview.core.settings import check_whole

Tokens = Float[Tensor, "batch group token width"]
Heads = Float[Tensor, "batch group head token head_width"]
Mask = Bool[Tensor, "batch group token"]
Carry = tuple[Tensor, ...]
Mixture = tuple[Heads, Carry | None]
"""The mixed values of all heads, and what the next layer needs; None where nothing is carried."""
Weights = Tensor | dict[str, Tensor]


@dataclass(frozen=True, slots=True)
class Site:
    """The place of a mechanism in a network: everything about it that is known when the network is built."""

    groups: int
    """Rows kept apart unless the mechanism says otherwise: PatchTST's channels."""
    tokens: int
    """The longest axis it will mix along; shorter ones are accepted."""
    width: int
    heads: int
    time_ordered: bool = True
    """Whether token order is time order. iTransformer's tokens are channels: False."""
    causal: bool = False
    """Whether a token may look at earlier ones only; those of its own time are among them where `times` are given."""
    causal_unless: str | None = None
    """The network's setting under which it is not causal, for sentences such as "give the network causal=False"."""
    head_width: int | None = None
    """Width of a head's queries and keys; None: width / heads."""
    value_width: int | None = None
    """Width of a head's values; None: as its queries and keys."""
    lookback: int | None = None
    """Time steps of the window the tokens were made from."""
    variates: int | None = None
    """The number of leading tokens that are channels (calendar tokens follow); None: all, or none in time order."""
    times: tuple[int, ...] | None = None
    """The time index of each token where order is not simply 0, 1, 2 ... (Timer-XL's channel x patch tokens)."""
    turned: int = 0
    """The number of leading channels of a head's queries and keys that the network turns by token index (Timer-XL)."""
    layer: int = 0
    layers: int = 1
    dropout: float = 0.0
    """Dropout on the attention weights."""
    projection_bias: bool = True
    """Whether query, key, value and output maps have a bias."""
    host: str = "this model"
    """The network's name, for sentences such as "iTransformer's tokens are channels"."""

    def __post_init__(self) -> None:
        given = {name: 1 for name in ("head_width", "value_width") if getattr(self, name) is not None}
        check_whole(self, "Site.", groups=1, tokens=1, width=1, heads=1, layers=1, **given)
        if self.head_width is None and self.width % self.heads:
            raise SettingsError(
                f"width {self.width} can't be shared evenly by {self.heads} heads; "
                f"choose a multiple of {self.heads}, another number of heads, or give head_width."
            )
        if not 0 <= self.dropout < 1:
            raise SettingsError(f"Attention dropout is {self.dropout}; it must lie in [0, 1).")

    @property
    def per_head(self) -> int:
        """The width of one head's queries and keys."""
        return self.head_width or self.width // self.heads

    @property
    def per_value(self) -> int:
        """The width of one head's values."""
        return self.value_width or self.per_head
