"""Servers of the lab's applications: Apache with PHP, and MariaDB, separate ones for each instance."""

from lab.cgroups import TierLimits
from lab.servers.instance import DB, TIERS, WEB, Instance

__all__ = ["DB", "TIERS", "WEB", "Instance", "TierLimits"]
