"""Settings that many networks have in common: the type of each and its meaning, as `rearview describe` prints it."""

from typing import Annotated, Literal

from rearview.embed.normalisation import Kind
from rearview.models.blocks.stack import Activation

TokenWidth = Annotated[int, "Width of a token."]
HeadCount = Annotated[int, "Attention heads."]
HeadWidth = Annotated[int | None, "Width of a head; None: width / heads."]
Depth = Annotated[int, "Blocks."]
FeedForwardWidth = Annotated[int, "Width inside the feed-forward part."]
EncoderDepth = Annotated[int, "Blocks of the encoder."]
DecoderDepth = Annotated[int, "Blocks of the decoder."]
BlockDropout = Annotated[float, "Dropout on attention's output and the feed-forward part."]
TokenDropout = Annotated[float, "Dropout on tokens, attention's output and the feed-forward part."]
WeightDropout = Annotated[float, "Dropout on tokens, attention's weights and output, and the feed-forward part."]
HeadDropout = Annotated[
    float, "Dropout on tokens, attention's weights and output, the feed-forward part and what the head is given."
]
DropoutThroughout = Annotated[float, "Dropout throughout."]
AttentionDropout = Annotated[float | None, "Dropout on the attention weights; None: as `dropout`."]
AnyActivation = Annotated[Activation, "Activation of the feed-forward part."]
GeluOrRelu = Annotated[Literal["gelu", "relu"], "Activation of the feed-forward part."]
PatchSteps = Annotated[int, "Time steps of a patch."]
StrideSteps = Annotated[int, "Time steps from one patch to the next; at most a patch."]
Normalisation = Annotated[Kind, "Instance normalisation: revin, last or none."]
PlainNormalisation = Annotated[Kind, "Instance normalisation: none (the original), last or revin."]
RevinNormalisation = Annotated[Kind, "Instance normalisation: revin (the original), last or none."]
Affine = Annotated[bool, "Whether RevIN learns a scale and a shift per channel."]
