#[test]
fn scratch() {
    use pulldown_cmark::*;
    for src in std::fs::read_to_string("/tmp/scratch.txt").unwrap().split("=====\n") {
        println!("-------- {src:?}");
        for (ev, r) in Parser::new_ext(src, Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH).into_offset_iter() {
            println!("{:>3}..{:<3} {:?} <= {:?}", r.start, r.end, ev, &src[r.clone()]);
        }
    }
}
