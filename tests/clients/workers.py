"""Threads whose failures are seen."""

import threading


class Workers:
    """Threads that work side by side. What one raises is in `failures`."""

    def __init__(self):
        self.threads, self.failures = [], []

    def start(self, work, *arguments):
        def guarded():
            try:
                work(*arguments)
            except Exception as error:
                self.failures.append(f"{work.__name__}{arguments}: {error!r}")

        self.threads.append(threading.Thread(target=guarded, name=f"{work.__name__}{arguments}"))
        self.threads[-1].start()
        return self.threads[-1]
