"""From a panel to forecasts: planning, fitting, answering, backtesting and saving, without frames."""
