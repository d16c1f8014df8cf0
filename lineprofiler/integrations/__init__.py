"""Profilers in the processes of frameworks that start their own. Each module needs its framework.

`lineprofiler.integrations.ray`: actors and tasks of Ray.
"""
