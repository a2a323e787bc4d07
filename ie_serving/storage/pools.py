"""A thread pool for each store.

A store that hangs or is slow occupies every thread that it can get. With its own threads it delays
only its own models; local paths and the models of other stores go on.
"""

from concurrent.futures import Executor, ThreadPoolExecutor


class StorePools:
    """One pool for each store, made on first use. Used on one thread.

    Args of the constructor:
        threads: of each pool; made as they are needed.
        name: of the threads, together with the store's.
    """

    def __init__(self, threads: int, name: str) -> None:
        self._threads = threads
        self._name = name
        self._pools: dict[str, ThreadPoolExecutor] = {}

    def of(self, store: str) -> Executor:
        """Give the pool of a store, by its name such as `s3`."""
        if store not in self._pools:
            self._pools[store] = ThreadPoolExecutor(self._threads, f"{self._name} {store}")
        return self._pools[store]

    def shutdown(self) -> None:
        """Start no more work, and do not wait for running work."""
        for pool in self._pools.values():
            pool.shutdown(wait=False, cancel_futures=True)
