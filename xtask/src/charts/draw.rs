//! Bars in groups, on a logarithmic scale about 1.
//!
//! Invariant: the drawing depends only on the table and these constants, not on the machine's fonts.

use anyhow::{Result, ensure};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::data::Table;

const WIDTH: u32 = 960;
const HEIGHT: u32 = 400;

/// One per series: told apart also by those who do not see red or green (Okabe and Ito, 2008).
const COLOURS: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(230, 159, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(213, 94, 0),
    RGBColor(120, 120, 120),
];

pub(super) fn svg(title: &str, foot: &str, table: &Table) -> Result<String> {
    ensure!(
        table.series.len() <= COLOURS.len(),
        "{} series exceed the maximum of {}",
        table.series.len(),
        COLOURS.len()
    );
    let values = || {
        table
            .series
            .iter()
            .flat_map(|(_, values)| values.iter().flatten().copied())
    };
    let lowest = values().fold(0.5, f64::min) * 0.9;
    let highest = values().fold(2.0, f64::max) * 1.15;
    let mut text = String::new();
    {
        let area = SVGBackend::with_string(&mut text, (WIDTH, HEIGHT)).into_drawing_area();
        area.fill(&WHITE)?;
        let mut chart = ChartBuilder::on(&area)
            .caption(title, ("sans-serif", 17))
            .margin(12)
            .margin_right(170)
            .margin_bottom(30)
            .x_label_area_size(24)
            .y_label_area_size(52)
            .build_cartesian_2d(0.0..table.columns.len() as f64, (lowest..highest).log_scale())?;
        chart
            .configure_mesh()
            .disable_x_mesh()
            .x_labels(0)
            .y_label_formatter(&|value| format!("{value}×"))
            .light_line_style(WHITE)
            .draw()?;
        let width = 0.84 / table.series.len() as f64;
        for (index, (_, values)) in table.series.iter().enumerate() {
            let bars = values.iter().enumerate().filter_map(|(column, value)| {
                let left = column as f64 + 0.08 + index as f64 * width;
                let value = (*value)?;
                Some(Rectangle::new(
                    [(left, 1.0), (left + width * 0.92, value)],
                    COLOURS[index].filled(),
                ))
            });
            chart.draw_series(bars)?;
        }
        let one = [(0.0, 1.0), (table.columns.len() as f64, 1.0)];
        chart.draw_series([PathElement::new(one, BLACK.stroke_width(1))])?;
        let small = ("sans-serif", 12).into_font();
        for (column, name) in table.columns.iter().enumerate() {
            let (x, y) = chart.backend_coord(&(column as f64 + 0.5, lowest));
            let middle = TextStyle::from(small.clone()).pos(Pos::new(HPos::Center, VPos::Top));
            area.draw(&Text::new(name.clone(), (x, y + 6), middle))?;
        }
        let left = WIDTH as i32 - 158;
        for (index, (name, _)) in table.series.iter().enumerate() {
            let top = 60 + 20 * index as i32;
            area.draw(&Rectangle::new(
                [(left, top), (left + 12, top + 12)],
                COLOURS[index].filled(),
            ))?;
            area.draw(&Text::new(name.clone(), (left + 18, top), small.clone()))?;
        }
        area.draw(&Text::new(foot.to_owned(), (12, HEIGHT as i32 - 20), small))?;
        area.present()?;
    }
    Ok(text)
}
