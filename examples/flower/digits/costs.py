"""What the aggregation of each round costs the server. On Linux and macOS."""

import time

from mixtailor.engines.flower import RobustStrategy


def print_costs(strategy: RobustStrategy) -> None:
    """Let a strategy print the time and the memory of each aggregation."""
    import resource  # not on Windows

    aggregate = strategy.aggregate_train

    def measured(server_round, replies):
        start, cpu = time.perf_counter(), time.process_time()
        found = aggregate(server_round, replies)
        seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3  # kB on Linux
        print(f"round {server_round} aggregated in {seconds:.2f} s ({cpu:.2f} s of processors, peak {peak:.0f} MB)")
        return found

    strategy.aggregate_train = measured  # type: ignore[method-assign]  # for this run alone
