"""SkillLoader: functions that are saved for later sessions."""
