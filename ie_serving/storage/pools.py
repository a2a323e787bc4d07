"""Threads for what waits for stores, some for each store.

A store that hangs or trickles holds all the threads that it can get. With threads of its own it
holds up its own models alone; local paths, and the models of other stores, go on.
"""

from concurrent.futures import Executor, ThreadPoolExecutor


class StorePools:
    """One pool for each store, made when it is first asked for. Used on one thread.

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
        """Begin nothing more; what runs is not waited for."""
        for pool in self._pools.values():
            pool.shutdown(wait=False, cancel_futures=True)
