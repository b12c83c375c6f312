"""Which candidate is better, and can it be said: ranks, wins, tests, intervals; numpy alone.

from rearview.bench.analysis import statistics

found = statistics.judge(scores, names)          # scores [block, candidate]: lower is better unless told
found.friedman.p_value, found.cliques, found.too_few
"""

from rearview.bench.analysis.statistics.bootstrap import Interval, paired_interval
from rearview.bench.analysis.statistics.judgement import Judgement, Pair, blocks_needed, cliques, judge
from rearview.bench.analysis.statistics.ranks import Record, average_ranks, ranks, record
from rearview.bench.analysis.statistics.significance import Friedman, SignedRank, friedman, holm, signed_rank

__all__ = [
    "Friedman",
    "Interval",
    "Judgement",
    "Pair",
    "Record",
    "SignedRank",
    "average_ranks",
    "blocks_needed",
    "cliques",
    "friedman",
    "holm",
    "judge",
    "paired_interval",
    "ranks",
    "record",
    "signed_rank",
]
