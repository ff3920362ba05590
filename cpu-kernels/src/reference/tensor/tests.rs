//! Elements of every type as bytes, what clones share, and lists.

use super::*;

#[test]
fn bytes_round_trip_for_every_element_type() {
    for element in Element::ALL {
        let Some(bits) = element.bits() else { continue };
        let bytes: Vec<u8> = (0..(6 * bits).div_ceil(8))
            .map(|i| {
                if element == Element::Bool {
                    (i % 2) as u8
                } else {
                    (i * 37 + 1) as u8
                }
            })
            .collect();
        let mut bytes = bytes;
        if (6 * bits) % 8 != 0 {
            *bytes.last_mut().unwrap() &= (1u8 << ((6 * bits) % 8)) - 1;
        }
        let t = Tensor::from_bytes(element, vec![2, 3], &bytes).unwrap();
        assert_eq!(t.to_bytes(), bytes, "{element:?}");
        assert_eq!(t.element(), element);
    }
}

#[test]
fn wrong_counts_are_refused() {
    assert!(Tensor::from_bytes(Element::F32, vec![2], &[0; 7]).is_err());
    assert!(Tensor::from_i64s(vec![2], vec![1]).is_err());
    assert!(Tensor::zeros(Element::F32, vec![usize::MAX, 2]).is_err());
    let t = Tensor::from_i64s(vec![2], vec![1, 2]).unwrap();
    assert!(t.select(vec![1], &[2]).is_err());
    assert!(t.clone().copy_run(1, &t, 0, 2).is_err());
}

#[test]
fn integers_wrap_and_floats_round_once() {
    let t = Tensor::from_i128s(Element::U8, vec![2], &[257, -1]).unwrap();
    assert_eq!(t.to_bytes(), [1, 255]);
    // a tie in f16 with a little more far below: must go up, though f32 would lose the little
    let v = 1.0 + 2f64.powi(-11) + 2f64.powi(-40);
    let t = Tensor::from_f64s(Element::F16, vec![1], &[v]).unwrap();
    assert_eq!(t.to_bytes(), 0x3c01u16.to_le_bytes());
}

#[test]
fn clones_share_elements_until_one_is_written() {
    let mut a = Tensor::from_f64s(Element::F32, vec![2], &[1.0, 2.0]).unwrap();
    let b = a.clone();
    assert_eq!(a.bytes().unwrap().as_ptr(), b.bytes().unwrap().as_ptr());
    a.bytes_mut().unwrap()[3] = 0;
    assert_eq!(b.to_f64s().unwrap(), [1.0, 2.0]);
    assert_ne!(a, b);
}

#[test]
fn elements_are_appended_to_tensors_of_every_kind() {
    for element in Element::ALL {
        let whole = element.bits().is_some_and(|bits| bits >= 8);
        let t = Tensor::zeros(element, vec![1, 2]).unwrap();
        let (shared, bytes) = (t.clone(), t.to_bytes());
        match t.append(vec![3, 2], &[&bytes, &bytes]) {
            Ok(longer) => assert_eq!(longer, Tensor::zeros(element, vec![3, 2]).unwrap()),
            Err(_) => assert!(!whole || shared.bytes().is_none(), "{element:?}"),
        }
        assert_eq!(shared, Tensor::zeros(element, vec![1, 2]).unwrap());
    }
    let t = Tensor::from_i64s(vec![1], vec![7]).unwrap();
    assert!(t.clone().append(vec![3], &[&[0; 8]]).is_err());
    let odd = [0u8, 5, 0, 0, 0, 0, 0, 0, 0];
    assert_eq!(
        t.append(vec![2], &[&odd[1..]]).unwrap().to_i64s().unwrap(),
        [7, 5]
    );
}

#[test]
fn a_list_is_its_bytes() {
    let one = Arc::new(Tensor::from_i64s(vec![1], vec![7]).unwrap());
    let list = List {
        tensors: vec![Arc::clone(&one), one],
        byte_len: 16,
        pack: |tensors| tensors.iter().flat_map(|t| t.to_bytes()).collect(),
    };
    let listed = Tensor::from_list(list);
    assert_eq!((listed.element(), listed.shape()), (Element::U8, &[16][..]));
    let plain = Tensor::from_bytes(Element::U8, vec![16], &listed.to_bytes()).unwrap();
    assert_eq!(listed, plain);
    assert!(plain.list().is_none());
    let mut written = listed.clone();
    written.bytes_mut().unwrap()[0] = 8;
    assert!(written.list().is_none());
    assert_eq!(listed.into_list().unwrap().tensors.len(), 2);
}
