"""MICA (Multivariate Infini Compressive Attention): each channel attends to itself and to a memory of all channels.

    A_local  = softmax(Q K^T / sqrt(d_k)) V                       within each channel                  Eq. (3)
    M        = sum_c w_c phi(K_c)^T V_c                           one memory for all channels          Eq. (4), (22)
    z        = sum_c w_c sum_p phi(K_c[p])                                                             Eq. (5), (23)
    A_global = phi(Q) M / (phi(Q) z + eps)                                                             Eq. (6), (24)
    A_mixed  = sigmoid(beta) A_global + (1 - sigmoid(beta)) A_local                                    Eq. (7), (8)
             = MLP([A_global; A_local])   or   MLP([A_global; A_local; Q])                             Eq. (9), (10)
             = A_local + A_global W                                                                    added

Symbols: C channels (groups), P patches (tokens), N heads; Q, K [C, P, d_k] and V [C, P, d_v] of one head; phi(x) =
elu(x) + 1; eps = 1e-6; w [C] the channels' weights. With `exclude_self`, M and z of a channel leave out its own part
(Eq. 17 to 21). The gate acts on each head before the heads are merged. The memory has neither mask of time nor
position bias nor dropout, so bias, ages, residual scores and dropout reach the local path alone.

The gates: `shared` and `channelwise` beta are one parameter for all layers of a stack, which owns it; `layerwise` and
`layerwise_channelwise` are a layer's own. All betas are per head (section 4.4 of the paper says "scalar").

Where we differ from the paper, and why:

- The weights of `static` are a softmax over channels of a parameter that starts at ones, those of `dynamic` a softmax
  over channels of a map of the mean query, as the released code has them; Eq. (25) prints a sum and no softmax.
  The released map has a bias as well, which is the same for all channels and cancels in the softmax.
- The MLP gives the mixed vector, as Eq. (9) and (10) say; appendix D.1 speaks of mixing weights. With the query it
  takes d_v + d_v + d_k inputs, so that keys and values may differ in width.
- Exclusion: w is renormalised over the channels that are left, so that excluding a channel is the same as its not
  being there; the printed and released form differs from this by eps alone, up to 1e-7. That form subtracts from C
  copies of M, and loses all digits when one channel outweighs the others. Here phi(Q) M - w_c (phi(Q) phi(K_c)^T) V_c
  needs no copies (for more tokens than a head is wide, phi(K_c)^T V_c is the smaller and is taken), and the complement
  of the heaviest channel is summed directly. With one channel nothing is left, and the constructor refuses.
- Padded tokens leave M, z and the mean query, and a channel of padding leaves the softmax over channels.
- `added` is a gate of ours, A_local + A_global W with W [d_v, d_v] of each head at 0 to begin with: a network that was
  trained without the memory starts as it was. With `exclude_self` it takes one channel, too, and adds nothing to it.
- Both sums run in float32 whatever the layer runs in.

On a GPU kernels of our own form and join both paths, at the settings that `gpu` names.
"""

from rearview.attention.mica.layer import Gate, Layer, Settings, reference

__all__ = ["Gate", "Layer", "Settings", "reference"]
