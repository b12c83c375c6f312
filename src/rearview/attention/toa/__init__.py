"""Temporal operator attention (TOA, Twitty et al., 2026): attention between learned, signed mixtures of tokens.

    S1 = I + M1,  S2 = I + M2                                                     (section 3.4)
    softmax:  O = softmax(A S1) S2 V
    relu:     O = max(0, A S1) S2 V
    gated:    O = (softplus(R S1R) * max(0, L S1L)) S2 V

Symbols: A = Q K^T / sqrt(d_h) the scores of one head; L and R two such scores from queries and keys of their own; V the
values; M1, M2 [N, N] learned per head, drawn from N(0, 0.001^2), so that a layer starts as plain attention. S1 spreads
a query's similarities over the keys before the activation; S2 mixes the values with any sign, so that differences,
filters and projections are within reach, which no row of a softmax is (proposition 1).

Stochastic operator regularisation (SOR), in training: M~ = M * B / (1 - p), p ~ U[0, 1) once a call, B_jk ~ Bern(1 - p)
once a matrix and head, not once a sample. E[M~ | p] = M, Var[M~ | p] = p / (1 - p) M^2; the variance has no bound and
is meant to have none. As p goes to 1 the layer falls back to S = I. Where a batch is cut to fit memory a call is one
part of it, and each part has a draw of its own.

What runs is A S1 = Q (S1^T K)^T and (W S2) V = W (S2 V): attention with mixed keys and mixed values. That costs
N^2 d_h instead of N^3, and the softmax kind runs on the fused kernel. S^T K is taken as K + M^T K, with M~ formed in
float32: the identity is then exact in bfloat16, where 1 + 0.001 is 1. On a GPU a kernel of our own mixes over short
axes, and others form rectified weights, all of a short axis at once or those of a long one block by block, and in the
backward pass once more, without keeping any.

Where we differ from the paper, or it is silent:
- The scores are divided by sqrt(d_h), which the paper never writes but all its backbones do; `score_scale=1` undoes it.
- Rectified scores have no norm, as printed; `score_norm` offers HyperMLP's and the mean over the keys. Without one a
  layer is cubic in its tokens, and a network whose norms are batch norms (PatchTST's) tends to end as a forecast of the
  mean; it warns of that, and trains with "l2". Under layer norms the printed form trains.
- Fewer than N tokens use the top-left block of M1 and M2.
- Padded keys and values are 0 before they are mixed, and padded scores are hidden after S1: the result is that of the
  real tokens alone. Zeros alone would not do, since S1 brings padded columns back to life.
- A bias (positions, RBCA's decay) joins the scores after S1, in the gated kind those of L; (A + M) S1 is NaN where M
  is -inf. It does not make the layer causal, because S1 and S2 carry the future across the mask. `causal=True` does:
  there M1 is upper and M2 lower triangular.
- Attention dropout falls on the weights after the activation, before S2.
- Residual scores (`carry_scores`) are those before S1, so a bias is added once a layer and not carried.
"""

from rearview.attention.toa.layer import Layer, Settings, reference

__all__ = ["Layer", "Settings", "reference"]
