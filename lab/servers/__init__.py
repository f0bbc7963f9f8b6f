"""Servers of the lab's applications: Apache with PHP, and MariaDB, separate ones for each instance."""
