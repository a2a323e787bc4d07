"""What of other rooms the page shows."""

from typing import NamedTuple

from ie_serving.config.settings import Settings
from ie_serving.models.served import ServedModels
from ie_serving.server.fronts.admin.health import Health
from ie_serving.storage.options import StorageOptions
from ie_serving.telemetry.metrics.recent_errors import RecentErrors


class Parts(NamedTuple):
    """What the page shows: configuration in force, models, how far the server is, failures."""

    settings: Settings
    storage: StorageOptions
    served: ServedModels
    health: Health
    errors: RecentErrors
