"""The settings of client quotas: the windows that rates are measured in. The metadata holds the quotas."""

from __future__ import annotations

from dataclasses import dataclass

from semel.settings import AtLeast, SettingType, declare

INT = SettingType.INT


@dataclass(frozen=True)
class QuotaConfig:
    """A part of ``BrokerConfig``."""

    quota_window_num: int = declare(
        "quota.window.num", INT, 11, "How many windows of time count for the quotas of clients.", rule=AtLeast(1)
    )
    quota_window_size_seconds: int = declare(
        "quota.window.size.seconds", INT, 1, "How long such a window is.", rule=AtLeast(1)
    )
    controller_quota_window_num: int = declare(
        "controller.quota.window.num",
        INT,
        11,
        "How many windows of the quota of topic changes (controller_mutation_rate) a client may use up at once.",
        rule=AtLeast(1),
    )
    controller_quota_window_size_seconds: int = declare(
        "controller.quota.window.size.seconds", INT, 1, "How long such a window is.", rule=AtLeast(1)
    )
