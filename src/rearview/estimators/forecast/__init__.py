"""From a panel to forecasts: plan, fit, predict, backtest, save."""
