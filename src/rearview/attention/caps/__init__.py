"""CAPS (Pati et al., 2026): linear attention to the past through three kinds of memory that add up.

Symbols, for one head of width d: h_t tokens; q_t, k_t, v_t; Delta_t > 0 the clock, one number a token; p_t, g_t [d]
gates; R_t a rotation; ^q_t = R_t q_t, ^k_i = R_i k_i.

    Delta_t = softplus(W_c h_t) + 1e-6                                   (7)     p_t = W_p h_t,   g_t = W_g h_t
    G[t,i] = exp(p_i) Delta_i / sum_(j<=t) exp(p_j) Delta_j              (11)    riemann: trends, by content
    A[t,i] = exp( - sum_(i<j<=t) softplus(g_j) Delta_j )                 (14)    prefix: shocks that fade
    B[t,i] = Delta_i / sum_(j<=t) Delta_j                                (15)    clock: a prior over time
    alpha[t,i] = sum_c ^q[t,c] ^k[i,c] (G + A + B)[t,i,c]                (17)
    o_t = sum_(i<=t) phi(alpha[t,i]) v_i         phi: identity (`linear`) or softmax over i

p and g have a value for each channel of a head, as the authors' code has it and "diagonal SPD(d)" says; B has none.

How it is computed. Each path is a recurrence with a gate below 1, S_t = diag(exp(a_t)) S_(t-1) + (w_t * ^k_t) v_t^T:

    prefix    a_t = -softplus(g_t) Delta_t            w_t = 1
    riemann   a_t = ln E_(t-1) - ln E_t               w_t = exp(s_t - ln E_t)      s_t = p_t + ln Delta_t,
    clock     the same with s_t = ln Delta_t                                       ln E_t = logsumexp_(j<=t) s_j

so one form serves all three (`recurrence`), linear in the number of tokens. a_t and w_t are taken as log sigmoid
and sigmoid of ln E_(t-1) - s_t and its negative: gate and weight then add up to 1 whatever was rounded before. On a
GPU one kernel does all of it for a short axis, maps of the tokens apart (`kernels/clocked.py`).

Where we differ from the paper, and why:

- Equation (9) subtracts a running maximum from scores that query and key share; no key can know the maximum at a later
  query. The recurrence needs none.
- Equation (13) divides keys by Gamma_i, the product of all gates so far, which underflows. The authors' code clips its
  logarithm and adds 1e-8 to the divisor (`numerics="released"`), and with that the prefix path of a fresh layer is dead
  after some fifty tokens: A[t,t], which must be 1, is 0.54 at t = 38 and 9e-13 at t = 96. `numerics="stable"` is the
  formula above at any length and for gates of any size; the two are different models. The released riemann path is not
  strictly causal either: it takes one maximum over the whole sequence for (9), and what should cancel does not, next to
  the 1e-8 that it adds to E_t. A late token with a large p moves earlier outputs.
- Equation (8) has learned frequencies; the authors' code has fixed ones in a layout that is no rotation. The default is
  a true rotation with fixed frequencies; `rotation` has the others.
- Softmax over alpha is causal here and scaled by 1/sqrt(d). The authors' is neither causal nor scaled so (1/sqrt(3 d));
  `numerics="released"` gives it.
- Maps have no biases and start as in appendix A.2, whatever the network around them does. Dropout on weights applies to
  the softmax form only: the linear form has no weights that it holds. A bias on scores likewise. Residual scores are
  not taken part in: alpha is no logit in the linear form.
"""

from rearview.attention.caps.layer import Layer, Settings, fast, path_weights, reference, rotation_matrix
from rearview.attention.caps.paths import PATHS

__all__ = ["PATHS", "Layer", "Settings", "fast", "path_weights", "reference", "rotation_matrix"]
