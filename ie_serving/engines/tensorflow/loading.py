"""What a process of TensorFlow begins with, before it imports TensorFlow, which takes seconds."""

from ie_serving.engines.process.worker import Job, Loaded


def load(job: Job) -> Loaded:
    """Load a job by TensorFlow; see `session.load`."""
    from ie_serving.engines.tensorflow import tensorflow_session as session

    return session.load(job)
