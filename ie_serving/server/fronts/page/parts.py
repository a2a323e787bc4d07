"""The objects of other packages whose data the page shows."""

from typing import NamedTuple

from ie_serving.config.settings import Settings
from ie_serving.models.served import ServedModels
from ie_serving.server.fronts.admin.health import Health
from ie_serving.storage.options import StorageOptions
from ie_serving.telemetry.metrics.recent_errors import RecentErrors


class PageSources(NamedTuple):
    """Data sources of the page: configuration in force, models, health, recent errors."""

    settings: Settings
    storage: StorageOptions
    served: ServedModels
    health: Health
    errors: RecentErrors
