"""TOML to settings and policies, or to one line for each mistake.

files finds and reads; settings and policies decode, tables what plugins bring; reading puts these together for a
folder, and finds what no source provides. checking is `elasticd check`, connecting its `--connect`.
"""

from pathlib import Path

from elasticd.config.files import policy_files, template_files
from elasticd.config.policies import load_policy
from elasticd.config.reading import read_policies
from elasticd.config.settings import LONGEST, HttpSettings, ScenarioSettings, Settings, load_settings

__all__ = [
    "DEFAULT_CONFIG",
    "LONGEST",
    "HttpSettings",
    "ScenarioSettings",
    "Settings",
    "load_policy",
    "load_settings",
    "policy_files",
    "read_policies",
    "template_files",
]

DEFAULT_CONFIG = Path("/etc/elasticd/elasticd.toml")
